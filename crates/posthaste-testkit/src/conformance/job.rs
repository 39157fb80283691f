//! Jobs: redelivery of many events, at a rate, step by step.

use std::time::{Duration, Instant};

use posthaste::store::{Claim, Filter, Job, JobState, Redelivery, Verdict};
use posthaste::{DeadReason, Event, Status, Store, header};
use uuid::Uuid;

use super::{HOUR, ann, claim_all, enqueue, messages, record, reject, settle};
use crate::bed::Bed;

/// So many dead events.
async fn dead(bed: &impl Bed, store: &impl Store, count: usize) -> Vec<Event> {
    enqueue(bed, &messages(count)).await;
    let events = claim_all(store, &Claim::new(100)).await;
    for event in &events {
        reject(store, event).await;
    }
    events
}

fn all(rate: Option<u32>) -> Redelivery {
    Redelivery {
        filter: Filter::default(),
        rate,
    }
}

async fn start(store: &impl Store, redelivery: &Redelivery) -> Job {
    store.start_job(redelivery, &ann()).await.unwrap()
}

/// Advances, and gives back state and how many were redelivered so far.
async fn advance(store: &impl Store, job: Uuid, limit: u32) -> Option<(JobState, u64)> {
    let job = store.advance(job, limit).await.unwrap()?;
    Some((job.state, job.redelivered))
}

// K6, B18
pub async fn a_job_redelivers_what_its_filter_means_step_by_step(bed: impl Bed) {
    let store = bed.relay().await;
    let events = dead(&bed, &store, 5).await;
    let redelivery = Redelivery {
        filter: Filter {
            ids: events[1..].iter().map(|event| event.id).collect(),
            ..Filter::default()
        },
        rate: None,
    };
    let job = start(&store, &redelivery).await;
    assert_eq!((job.total, job.redelivered), (4, 0));
    assert_eq!((job.state, job.ended_at), (JobState::Running, None));
    assert_eq!(store.job(job.id).await.unwrap(), Some(job.clone()));
    while let Some((JobState::Running, _)) = advance(&store, job.id, 3).await {}
    let done = store.job(job.id).await.unwrap().unwrap();
    assert_eq!((done.state, done.redelivered), (JobState::Done, 4));
    assert!(done.ended_at.is_some());
    assert_eq!(advance(&store, job.id, 3).await, None);
    assert_eq!(record(&store, events[0].id).await.status, Status::Dead);
    for event in &events[1..] {
        assert_eq!(record(&store, event.id).await.status, Status::Pending);
        let log = store.audit(Some(event.id), 10).await.unwrap();
        assert_eq!((log.len(), log[0].act.as_str()), (1, "redeliver"));
        assert!(log[0].why.contains(&job.id.to_string()));
    }
    let log = store.audit(Some(Uuid::nil()), 10).await.unwrap();
    assert_eq!((log.len(), log[0].act.as_str()), (1, "start job"));
}

pub async fn a_job_keeps_to_its_rate(bed: impl Bed) {
    let store = bed.relay().await;
    dead(&bed, &store, 7).await;
    let job = start(&store, &all(Some(2))).await;
    let began = Instant::now();
    let (state, first) = advance(&store, job.id, 100).await.unwrap();
    assert_eq!((state, first), (JobState::Running, 2));
    let (_, at_once) = advance(&store, job.id, 100).await.unwrap();
    // Two more for each second that this took.
    let most = 3 + began.elapsed().as_millis() / 500;
    assert!(u128::from(at_once) <= most, "{at_once}, and not {most}");
    bed.pass(HOUR).await;
    // Who was away for an hour does not make up for it.
    let (_, later) = advance(&store, job.id, 100).await.unwrap();
    assert_eq!(later, at_once + 2);
}

pub async fn a_job_can_be_paused_resumed_and_cancelled(bed: impl Bed) {
    let store = bed.relay().await;
    let events = dead(&bed, &store, 4).await;
    let job = start(&store, &all(None)).await.id;
    assert_eq!(advance(&store, job, 1).await, Some((JobState::Running, 1)));
    let set = async |state| {
        let job = store.set_job(job, state, &ann()).await.unwrap();
        job.unwrap().state
    };
    assert_eq!(set(JobState::Paused).await, JobState::Paused);
    assert_eq!(advance(&store, job, 1).await, None);
    assert_eq!(set(JobState::Running).await, JobState::Running);
    assert_eq!(advance(&store, job, 1).await, Some((JobState::Running, 2)));
    assert_eq!(set(JobState::Cancelled).await, JobState::Cancelled);
    assert_eq!(set(JobState::Running).await, JobState::Cancelled);
    assert_eq!(advance(&store, job, 1).await, None);
    assert_eq!(record(&store, events[3].id).await.status, Status::Dead);
    let unknown = store
        .set_job(Uuid::new_v4(), JobState::Paused, &ann())
        .await;
    assert_eq!(unknown.unwrap(), None);
    let log = store.audit(Some(Uuid::nil()), 10).await.unwrap();
    let acts: Vec<_> = log.iter().rev().map(|entry| entry.act.as_str()).collect();
    assert_eq!(acts, ["start job", "pause job", "resume job", "cancel job"]);
    let open = start(&store, &all(None)).await.id;
    let jobs: Vec<Uuid> = store
        .jobs(10)
        .await
        .unwrap()
        .iter()
        .map(|job| job.id)
        .collect();
    assert_eq!(jobs, [open, job]);
    assert_eq!(store.jobs(1).await.unwrap().len(), 1);
}

// Or it would go on for ever with what it cannot mend.
pub async fn what_died_after_a_job_began_is_none_of_its_own(bed: impl Bed) {
    let store = bed.relay().await;
    dead(&bed, &store, 2).await;
    let job = start(&store, &all(None)).await.id;
    assert_eq!(advance(&store, job, 1).await, Some((JobState::Running, 1)));
    for event in claim_all(&store, &Claim::new(10)).await {
        reject(&store, &event).await;
    }
    dead(&bed, &store, 1).await;
    assert_eq!(advance(&store, job, 10).await, Some((JobState::Done, 2)));
}

// M15
pub async fn what_was_discarded_is_a_jobs_only_if_it_is_named(bed: impl Bed) {
    let store = bed.relay().await;
    let events = dead(&bed, &store, 4).await;
    let given_up: Vec<Uuid> = events[..3].iter().map(|event| event.id).collect();
    store.discard(&given_up, &ann()).await.unwrap();
    let finish = async |filter: Filter| {
        let job = start(&store, &Redelivery { filter, rate: None }).await;
        while let Some((JobState::Running, _)) = advance(&store, job.id, 2).await {}
        let done = store.job(job.id).await.unwrap().unwrap();
        (done.total, done.redelivered)
    };
    assert_eq!(finish(Filter::default()).await, (1, 1));
    let named = Filter {
        ids: given_up[..1].to_vec(),
        ..Filter::default()
    };
    assert_eq!(finish(named).await, (1, 1));
    let by_reason = Filter {
        reason: Some(DeadReason::Discarded),
        ..Filter::default()
    };
    assert_eq!(finish(by_reason).await, (2, 2));
}

// M15
pub async fn a_job_sends_delivered_events_again_once(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &messages(3)).await;
    let events = claim_all(&store, &Claim::new(10)).await;
    for event in &events {
        settle(&store, event, Verdict::Delivered { keep: true }).await;
    }
    let redelivery = Redelivery {
        filter: Filter {
            status: vec![Status::Delivered],
            ..Filter::default()
        },
        rate: None,
    };
    let job = start(&store, &redelivery).await.id;
    while let Some((JobState::Running, _)) = advance(&store, job, 2).await {}
    let job = store.job(job).await.unwrap().unwrap();
    assert_eq!((job.state, job.redelivered), (JobState::Done, 3));
    let again = claim_all(&store, &Claim::new(10)).await;
    let mut origins: Vec<String> = again
        .iter()
        .map(|event| event.headers[header::REDELIVERY_OF].clone())
        .collect();
    origins.sort();
    let mut expected: Vec<String> = events.iter().map(|event| event.id.to_string()).collect();
    expected.sort();
    assert_eq!(origins, expected);
}

// M13
pub async fn two_that_advance_a_job_redeliver_nothing_twice(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    let events = dead(&bed, &one, 40).await;
    let job = start(&one, &all(None)).await.id;
    let work = async |store: &_| {
        loop {
            let known = Store::job(store, job).await.unwrap().unwrap();
            if known.state == JobState::Done {
                return known.redelivered;
            }
            Store::advance(store, job, 3).await.unwrap();
        }
    };
    let (left, right) = tokio::join!(work(&one), work(&other));
    assert_eq!((left, right), (40, 40));
    for event in events {
        assert_eq!(one.audit(Some(event.id), 10).await.unwrap().len(), 1);
    }
}

// K6, B18
pub async fn a_job_that_is_begun_again_under_its_id_is_the_same_job(bed: impl Bed) {
    let store = bed.relay().await;
    let events = dead(&bed, &store, 3).await;
    let id = Uuid::new_v4();
    let redelivery = Redelivery {
        filter: Filter {
            older_than: Some(Duration::from_millis(1500)),
            ..Filter::default()
        },
        rate: Some(u32::MAX),
    };
    bed.pass(HOUR).await;
    let first = store.start_job_as(id, &redelivery, &ann()).await.unwrap();
    assert_eq!((first.new, first.job.id, first.job.total), (true, id, 3));
    assert!(first.job.is(&redelivery));
    // Under way, and when it is over.
    let again = store.start_job_as(id, &redelivery, &ann()).await.unwrap();
    assert_eq!((again.new, &again.job), (false, &first.job));
    while let Some((JobState::Running, _)) = advance(&store, id, 2).await {}
    let again = store.start_job_as(id, &redelivery, &ann()).await.unwrap();
    assert!(!again.new && again.job.is(&redelivery));
    assert_eq!(
        (again.job.state, again.job.redelivered),
        (JobState::Done, 3)
    );
    // Another redelivery under the same id changes nothing, and is seen to be another one.
    for other in [all(Some(u32::MAX)), all(None)] {
        let other_job = store.start_job_as(id, &other, &ann()).await.unwrap();
        assert_eq!((other_job.new, &other_job.job), (false, &again.job));
        assert!(!other_job.job.is(&other));
    }
    assert_eq!(store.jobs(10).await.unwrap().len(), 1);
    for event in events {
        assert_eq!(store.audit(Some(event.id), 10).await.unwrap().len(), 1);
    }
    let log = store.audit(None, 100).await.unwrap();
    let begun = log.iter().filter(|entry| entry.act == "start job");
    assert_eq!(begun.count(), 1);
}

// K6, M13
pub async fn a_job_that_many_begin_at_once_under_one_id_is_one_job(bed: impl Bed) {
    let stores = [bed.relay().await, bed.relay().await, bed.relay().await];
    dead(&bed, &stores[0], 2).await;
    for _ in 0..10 {
        let id = Uuid::new_v4();
        let (redelivery, by) = (all(Some(1)), ann());
        let [a, b, c] = stores
            .each_ref()
            .map(|it| it.start_job_as(id, &redelivery, &by));
        let (a, b, c) = tokio::join!(a, b, c);
        let started = [a.unwrap(), b.unwrap(), c.unwrap()];
        assert_eq!(started.iter().filter(|it| it.new).count(), 1);
        assert!(started.iter().all(|it| it.job == started[0].job));
    }
    assert_eq!(stores[0].jobs(100).await.unwrap().len(), 10);
    let log = stores[0].audit(None, 100).await.unwrap();
    assert_eq!(log.iter().filter(|it| it.act == "start job").count(), 10);
}

pub async fn a_job_of_what_cannot_be_redelivered_is_refused(bed: impl Bed) {
    let store = bed.relay().await;
    let live = Redelivery {
        filter: Filter {
            status: vec![Status::Pending],
            ..Filter::default()
        },
        rate: None,
    };
    for refused in [live, all(Some(0))] {
        let error = store.start_job(&refused, &ann()).await.unwrap_err();
        assert_eq!(error.code(), "store.settings");
    }
    assert!(store.jobs(10).await.unwrap().is_empty());
}

// M15
pub async fn redelivered_events_say_how_often(bed: impl Bed) {
    let store = bed.relay().await;
    let id = dead(&bed, &store, 1).await[0].id;
    for times in ["1", "2"] {
        store.redeliver(&[id], &ann()).await.unwrap();
        let event = claim_all(&store, &Claim::new(1)).await.remove(0);
        assert_eq!(event.id, id);
        assert_eq!(event.headers[header::REDELIVERED], times);
        reject(&store, &event).await;
    }
}
