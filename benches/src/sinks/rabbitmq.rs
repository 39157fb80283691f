//! RabbitMQ: persistent messages to a durable queue, mandatory, each of them confirmed.

use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Confirmation, Connection, ConnectionProperties, ExchangeKind};
use posthaste_relay::Envelope;
use posthaste_relay::envelope::Binding;
use posthaste_relay::sink::RabbitMq;
use posthaste_testkit::server::{self, Options};

use super::{Sample, TOPIC, compare, flat_out};
use crate::Result;
use crate::bed::Bed;

const EXCHANGE: &str = "bench";

pub(crate) async fn run(bed: &Bed) -> Result {
    let server = server::RabbitMq::start(Options::new())?;
    let connection = Connection::connect(&server.url(), ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let durable = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    channel
        .exchange_declare(
            EXCHANGE.into(),
            ExchangeKind::Topic,
            durable,
            FieldTable::default(),
        )
        .await?;
    let queue = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare(EXCHANGE.into(), queue, FieldTable::default())
        .await?;
    let (all, bind) = (FieldTable::default(), QueueBindOptions::default());
    channel
        .queue_bind(EXCHANGE.into(), EXCHANGE.into(), "#".into(), bind, all)
        .await?;
    let sample = Sample::new(&Envelope::raw(), Binding::Amqp).await?;
    let mut headers = FieldTable::default();
    for (name, value) in &sample.headers {
        let value = AMQPValue::LongString(LongString::from(value.as_str()));
        headers.insert(ShortString::from(name.as_str()), value);
    }
    let properties = BasicProperties::default()
        .with_delivery_mode(2)
        .with_message_id(sample.id.as_str().into())
        .with_content_type("application/json".into())
        .with_headers(headers);
    let mandatory = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    let floor = async |events| {
        flat_out(events, |_| {
            let (channel, sample, properties) = (&channel, &sample, properties.clone());
            async move {
                let confirm = channel
                    .basic_publish(
                        EXCHANGE.into(),
                        TOPIC.into(),
                        mandatory,
                        &sample.body,
                        properties,
                    )
                    .await?;
                match confirm.await? {
                    Confirmation::Ack(None) => Ok(()),
                    _ => Err("not confirmed".into()),
                }
            }
        })
        .await
    };
    let sink = RabbitMq::builder(server.url(), EXCHANGE).build()?;
    compare(bed, "RabbitMQ", sink, floor).await
}
