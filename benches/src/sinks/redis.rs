//! Redis: one XADD for each event, pipelined, on the disk before it is acknowledged.

use posthaste_relay::Envelope;
use posthaste_relay::envelope::Binding;
use posthaste_relay::sink::Redis;
use posthaste_testkit::server::{self, Options};

use super::{Sample, TOPIC, compare, flat_out};
use crate::Result;
use crate::bed::Bed;

/// As many as the sink has by default, and as many events in a row over each.
const CONNECTIONS: usize = 4;
const NEIGHBOURS: usize = 64;

pub(crate) async fn run(bed: &Bed) -> Result {
    let server = server::Redis::start(Options::new())?;
    let client = redis::Client::open(server.url())?;
    // As the sink does: a busy machine is slow, not gone.
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let one = client.get_multiplexed_async_connection_with_config(&patient);
        connections.push(one.await?);
    }
    let sample = Sample::new(&Envelope::raw(), Binding::Redis).await?;
    let floor = async |events| {
        flat_out(events, |n| {
            let turn = n as usize / NEIGHBOURS % CONNECTIONS;
            let (mut connection, sample) = (connections[turn].clone(), &sample);
            async move {
                let mut add = redis::cmd("XADD");
                add.arg(TOPIC).arg("*");
                for (name, value) in &sample.headers {
                    add.arg(name).arg(value);
                }
                add.arg("payload").arg(&sample.body[..]);
                let _: String = add.query_async(&mut connection).await?;
                Ok(())
            }
        })
        .await
    };
    let sink = Redis::builder(server.url()).build()?;
    compare(bed, "Redis", sink, floor).await
}
