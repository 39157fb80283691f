//! What every store does, whatever it is built on: one function for each behaviour, by theme.
//!
//! [`conformance!`](crate::conformance!) makes a test of each of them, for a store whose
//! [`Bed`] it is given. Above each stands the line of the spec that it proves.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "these are tests: their names are sentences, and a panic is how they fail"
)]

pub mod act;
pub mod browse;
pub mod claim;
pub mod clean;
pub mod enqueue;
pub mod filter;
pub mod group;
pub mod history;
pub mod inspect;
pub mod job;
pub mod letters;
pub mod order;
pub mod pause;
pub mod settle;
pub mod takeover;
pub mod watch;

use std::time::{Duration, Instant};

use posthaste::store::{Act, Claim, Filter, OnFailure, Ordering, Reach, Settlement, Verdict};
use posthaste::{DeadReason, Event, Message, Receipt, Record, Store};
use uuid::Uuid;

use crate::bed::Bed;

const TOPIC: &str = "shop.order.placed.v1";
const HOUR: Duration = Duration::from_secs(3600);

/// Makes a test of every behaviour. The expression makes a fresh bed, and is awaited:
///
/// ```ignore
/// posthaste_testkit::conformance!(OnPostgres::new());
/// ```
#[macro_export]
macro_rules! conformance {
    ($bed:expr) => {
        $crate::conformance! { $bed;
            enqueue {
                a_new_event_is_pending_due_and_unleased
                many_events_are_numbered_in_the_order_of_their_messages
                the_same_id_makes_one_event
                the_same_dedupe_key_makes_one_event
                a_dedupe_key_counts_within_its_namespace_and_topic
                twins_in_one_call_make_one_event
                racing_producers_make_one_event
                a_delivered_event_still_counts_as_enqueued
                a_refused_message_leaves_nothing_behind
                what_was_enqueued_is_what_is_claimed
                a_delayed_event_waits_for_its_time
                a_tool_enqueues_without_a_transaction_of_its_own
            }
            claim {
                due_events_are_claimed_oldest_first
                a_claim_takes_no_more_than_its_limit
                a_claim_takes_no_more_bytes_than_wished_but_at_least_one_event
                a_claim_says_who_holds_the_event_and_until_when
                what_is_leased_is_not_claimed_again
                what_others_claimed_settled_or_put_off_between_two_claims_is_left_alone
                an_expired_lease_is_claimed_again
                an_event_that_is_not_due_is_left_alone
                a_claim_keeps_to_its_scope
                topics_whose_destination_is_down_are_left_alone
                a_crash_on_the_last_attempt_is_dead
                a_pending_event_without_an_attempt_left_is_dead
                eight_relays_never_claim_the_same_event
                claims_that_go_onward_reach_every_event
                what_a_claim_leaves_out_stays_where_it_was_for_the_next
            }
            settle {
                a_delivered_event_is_kept_or_deleted_as_asked
                a_mixed_batch_is_settled_each_in_its_way
                a_retry_waits_for_its_delay
                a_released_event_is_due_at_once_with_its_attempt_back
                a_postponed_event_waits_for_its_delay_with_its_attempt_back
                a_rejected_event_is_dead_with_its_reason
                an_old_epoch_changes_nothing
                another_owner_changes_nothing
                a_lease_that_another_relay_took_is_lost
                of_an_old_and_a_new_lease_only_the_old_is_lost
                a_settled_lease_is_over
                an_expired_lease_that_nobody_took_still_settles
                an_extended_lease_keeps_others_away
                delivered_and_dead_events_are_never_claimed
            }
            order {
                a_run_of_one_key_is_claimed_in_sequence
                a_key_waits_while_one_of_its_events_is_leased
                events_without_a_key_wait_for_nobody
                a_retried_head_holds_back_its_followers
                a_retried_head_goes_before_its_followers_in_the_smallest_claim
                followers_of_a_retried_head_do_not_fill_the_batch
                followers_of_a_retried_head_do_not_hide_it_from_a_probe
                a_probe_goes_past_any_number_of_followers
                thousands_of_blocked_events_do_not_starve_others
                a_dead_event_blocks_its_key_until_it_is_discarded
                a_dead_event_that_is_redelivered_goes_first
                a_pending_head_that_is_discarded_blocks_nobody
                followers_of_a_dead_event_are_parked_if_so_wished
                what_waits_behind_a_dead_and_a_retried_event_starves_nobody
                followers_of_a_dead_event_go_on_if_so_wished
                a_head_that_crashed_for_good_counts_as_dead_at_once
                many_relays_keep_each_key_in_sequence
                events_of_a_key_after_a_retry_keep_their_sequence
                a_run_that_is_too_large_at_once_goes_on_where_it_was_cut
                a_claim_tells_the_keys_in_which_it_passed_events_that_wait
                a_claim_for_some_keys_finds_their_first_events_and_no_others
            }
            takeover {
                events_of_a_killed_relay_are_claimed_long_before_their_lease_ends
                all_that_a_killed_relay_had_is_claimed_however_many_claims_that_takes
                claims_that_go_onward_also_find_what_a_killed_relay_had
                a_killed_relays_lease_settles_nothing_once_taken_over
                a_living_relay_keeps_its_events
                a_relay_that_leaves_with_leases_is_taken_over
                a_relay_that_leaves_without_leases_leaves_no_trace
                a_relay_that_left_comes_back_as_another_owner
                a_relay_killed_on_the_last_attempt_leaves_it_dead
                keys_of_a_killed_relay_go_on_in_sequence
                two_heirs_share_without_taking_anything_twice
                one_relay_leads
                another_relay_leads_once_the_leader_left
                another_relay_leads_once_the_leader_was_killed
                a_relay_killed_before_it_claimed_harms_nobody
                what_a_claim_got_that_was_given_up_is_claimed_long_before_its_lease_ends
            }
            clean {
                only_delivered_events_past_their_retention_go
                dead_events_stay_unless_they_have_a_retention
                live_events_never_go
                cleaning_goes_in_bounded_batches
                an_archive_keeps_what_is_cleaned
                events_are_removed_by_name_only_once_they_have_ended
                a_cleaned_dedupe_key_is_free_again
            }
            act {
                what_concerns_no_single_event_is_written_down_too
                a_dead_event_comes_back_with_all_its_attempts
                a_delivered_event_is_sent_again_as_a_new_one
                live_and_unknown_events_are_not_redelivered
                pending_and_dead_events_can_be_discarded
                leased_and_delivered_events_are_not_discarded
                the_audit_log_is_told_page_by_page
                the_audit_log_of_one_event_is_told_latest_first
                odd_names_and_reasons_are_written_down
            }
            filter {
                a_list_is_filtered_by_scope_and_status
                a_list_is_filtered_by_everything_an_operator_knows
                several_conditions_must_all_hold
                hostile_texts_in_a_filter_are_only_texts
            }
            letters {
                each_death_by_verdict_makes_one_letter_that_tells_of_it
                a_crash_on_the_last_attempt_makes_a_letter
                an_event_found_without_an_attempt_left_makes_a_letter
                parked_events_get_letters_too
                a_letter_says_what_the_dead_event_said
                a_letter_is_an_event_like_any_other
                odd_topics_and_errors_are_told_in_plain_ascii
                a_letter_tells_of_every_attempt
                a_letter_tells_of_the_newest_attempts_in_few_bytes
                a_letter_tells_of_attempts_before_a_redelivery
                without_a_topic_there_is_no_letter
                a_letter_that_dies_makes_no_letter
                a_discarded_event_makes_no_letter
                a_lost_lease_makes_no_letter
                an_event_that_dies_again_makes_another_letter
            }
            browse {
                pages_come_newest_or_oldest_first_without_gaps_and_repeats
                a_page_keeps_to_its_filter
                a_page_that_finds_little_says_where_to_go_on
                pages_pass_over_nothing_that_stays_while_a_relay_works
            }
            history {
                a_first_success_is_told_by_the_event_alone
                failures_and_the_success_after_them_are_told_in_order
                a_timeout_and_a_rejection_are_told_apart
                an_attempt_under_way_is_told
                a_crashed_attempt_is_told
                what_was_released_or_postponed_was_no_attempt
                attempts_go_on_after_a_redelivery
                the_newest_attempts_are_kept
                history_goes_with_its_event
                a_lost_lease_leaves_no_history
            }
            group {
                dead_events_are_grouped_by_kind_of_error_and_reason
                groups_keep_to_their_filter
                a_group_can_be_listed_counted_and_redelivered
            }
            pause {
                an_outbox_and_its_destinations_are_paused_and_resumed
                a_pause_is_kept_as_it_was_made
                pauses_are_written_down
            }
            job {
                a_job_redelivers_what_its_filter_means_step_by_step
                a_job_keeps_to_its_rate
                a_job_can_be_paused_resumed_and_cancelled
                what_died_after_a_job_began_is_none_of_its_own
                what_was_discarded_is_a_jobs_only_if_it_is_named
                a_job_sends_delivered_events_again_once
                two_that_advance_a_job_redeliver_nothing_twice
                a_job_of_what_cannot_be_redelivered_is_refused
                a_job_that_is_begun_again_under_its_id_is_the_same_job
                a_job_that_many_begin_at_once_under_one_id_is_one_job
                redelivered_events_say_how_often
            }
            watch {
                relays_are_told_with_their_leases
                a_relay_that_is_gone_is_told_as_such
                the_leader_is_told
                keys_whose_head_is_dead_or_waits_are_told
                a_discarded_head_blocks_nobody
                health_tells_what_the_database_is
                stats_tell_how_much_was_enqueued
            }
            inspect {
                stats_count_events_by_status
                stats_tell_for_how_long_the_oldest_event_has_been_due
                stats_tell_what_is_stuck_even_if_its_lease_is_extended
                a_list_can_be_read_page_by_page
                one_event_can_be_looked_at
                what_an_event_says_is_told_apart_from_its_state
                what_ended_is_told_in_the_order_in_which_it_did
                what_ended_can_be_followed_from_a_mark
            }
        }
    };
    ($bed:expr; $($theme:ident { $($behaviour:ident)* })*) => {
        $(mod $theme {
            #[allow(unused_imports, reason = "the bed may be named in full")]
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                $crate::conformance::$theme::$behaviour($bed.await).await;
            })*
        })*
    };
}

fn message() -> Message {
    Message::bytes(TOPIC, "text/plain", "x")
}

fn messages(count: usize) -> Vec<Message> {
    vec![message(); count]
}

/// Events of these keys, in this order.
fn keyed(keys: &[&str]) -> Vec<Message> {
    keys.iter()
        .map(|key| message().ordering_key(*key))
        .collect()
}

fn by_key(limit: u32, on_failure: OnFailure) -> Claim {
    Claim {
        ordering: Ordering::Key(on_failure),
        ..Claim::new(limit)
    }
}

async fn enqueue(bed: &impl Bed, messages: &[Message]) -> Vec<Receipt> {
    bed.enqueue(messages).await.expect("valid messages")
}

/// Claims as a relay does: from the oldest, then onward while there may be more.
async fn claim_all(store: &impl Store, claim: &Claim) -> Vec<Event> {
    let mut claim = claim.clone();
    let mut events = Vec::new();
    loop {
        let claimed = store.claim(&claim).await.expect("a claim");
        assert!(claimed.events.len() <= claim.limit as usize);
        events.extend(claimed.events);
        if !claimed.more {
            return events;
        }
        claim.reach = Reach::Onward;
    }
}

async fn deliver(store: &impl Store, events: &[Event]) {
    let settlements: Vec<Settlement> = events
        .iter()
        .map(|event| Settlement {
            lease: event.lease,
            tried: None,
            verdict: Verdict::Delivered { keep: true },
        })
        .collect();
    store.settle(&settlements).await.expect("a settlement");
}

/// Settles one event, whose lease is to hold.
async fn settle(store: &impl Store, event: &Event, verdict: Verdict) {
    let settlement = Settlement {
        lease: event.lease,
        tried: None,
        verdict,
    };
    let settled = store.settle(&[settlement]).await.expect("a settlement");
    assert_eq!((settled.applied, settled.lost), (1, Vec::new()));
}

async fn retry(store: &impl Store, event: &Event, delay: Duration) {
    let error = "no answer".to_owned();
    settle(store, event, Verdict::Retry { delay, error }).await;
}

async fn reject(store: &impl Store, event: &Event) {
    let (reason, error) = (DeadReason::Rejected, "too odd".to_owned());
    settle(
        store,
        event,
        Verdict::Dead {
            reason,
            error,
            letter: None,
        },
    )
    .await;
}

/// Makes one event die of this.
async fn die(store: &impl Store, event: &Event, reason: DeadReason, error: &str) {
    let verdict = Verdict::Dead {
        reason,
        error: error.to_owned(),
        letter: None,
    };
    settle(store, event, verdict).await;
}

fn ann() -> Act {
    Act {
        actor: "ann".to_owned(),
        why: "the warehouse is back".to_owned(),
    }
}

async fn record(store: &impl Store, id: Uuid) -> Record {
    store.show(id).await.expect("a look").expect("an event")
}

/// Everything in the outbox, in sequence.
async fn all(store: &impl Store) -> Vec<Record> {
    store
        .list(&Filter::default(), 100_000)
        .await
        .expect("a list")
}

/// What has an id.
trait HasId {
    fn id(&self) -> Uuid;
}

impl HasId for Event {
    fn id(&self) -> Uuid {
        self.id
    }
}

impl HasId for Receipt {
    fn id(&self) -> Uuid {
        self.id
    }
}

impl HasId for Record {
    fn id(&self) -> Uuid {
        self.id
    }
}

fn ids(events: &[impl HasId]) -> Vec<Uuid> {
    events.iter().map(HasId::id).collect()
}

/// Waits for something that takes a moment, such as a session's end. Says what never came.
async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_behaviour_is_run() {
        let listed = include_str!("conformance.rs");
        for theme in [
            include_str!("conformance/act.rs"),
            include_str!("conformance/browse.rs"),
            include_str!("conformance/claim.rs"),
            include_str!("conformance/clean.rs"),
            include_str!("conformance/enqueue.rs"),
            include_str!("conformance/filter.rs"),
            include_str!("conformance/group.rs"),
            include_str!("conformance/history.rs"),
            include_str!("conformance/inspect.rs"),
            include_str!("conformance/job.rs"),
            include_str!("conformance/letters.rs"),
            include_str!("conformance/order.rs"),
            include_str!("conformance/pause.rs"),
            include_str!("conformance/settle.rs"),
            include_str!("conformance/takeover.rs"),
            include_str!("conformance/watch.rs"),
        ] {
            for line in theme.lines() {
                let Some(rest) = line.strip_prefix("pub async fn ") else {
                    continue;
                };
                let name = rest.split('(').next().unwrap();
                let found = listed.lines().any(|line| line.trim() == name);
                assert!(found, "{name} is not in the list");
            }
        }
    }
}
