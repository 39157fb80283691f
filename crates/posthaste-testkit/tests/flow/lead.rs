//! The lead is lost between two steps of whoever has it.

use crate::producer::produce_at_once;
use crate::scene::Scene;

// B7
#[tokio::test]
async fn one_that_loses_the_lead_before_it_claims_delivers_nothing() {
    let mut scene = Scene::new(false).await;
    let options = [("single-active", 1), ("takes", 2000)];
    let mut faults = scene.faults();
    let victim = scene
        .relay(&[options[0], options[1], ("cut-as-leader", 1)])
        .await;
    faults.hit(victim.pid());
    let pid = victim.pid();
    let other = scene.relay(&options).await;
    // More than the other has in hand: something is left to be claimed by one who thinks that it leads.
    let table = scene.fresh.table.clone();
    let produced = produce_at_once(&mut scene.fresh.client, &table, 160).await;
    let consumed = scene.close(&produced, vec![victim, other], &faults).await;
    assert_eq!((consumed.by(pid), consumed.repeats()), (0, 0));
}
