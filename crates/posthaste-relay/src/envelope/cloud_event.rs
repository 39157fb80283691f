//! An event as CloudEvents 1.0 describes it: its attributes, and its form as one JSON object.

use std::borrow::Cow;

use base64::Engine as _;
use bytes::Bytes;
use posthaste::{Event, header};
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::value::RawValue;

use super::{Envelope, given, time, trace};
use crate::escape::{is_unreserved, percent};

impl Envelope {
    /// The attributes of CloudEvents, but for `datacontenttype`.
    pub(super) fn attributes<'e>(&'e self, event: &'e Event) -> Vec<(&'static str, Cow<'e, str>)> {
        let text = |text: &'e Option<String>| given(text).map(Cow::Borrowed);
        let source = match &self.source {
            Some(source) => source.into(),
            None => format!(
                "/{}/{}",
                percent(event.table.schema(), is_unreserved),
                percent(event.table.name(), is_unreserved)
            )
            .into(),
        };
        let subject = match (given(&event.aggregate_type), given(&event.aggregate_id)) {
            (Some(kind), Some(id)) => Some(format!("{kind}/{id}").into()),
            (None, Some(id)) => Some(id.into()),
            (_, None) => None,
        };
        let namespace = Some(event.namespace.as_str()).filter(|name| !name.is_empty());
        let mut attributes = vec![
            ("specversion", "1.0".into()),
            ("id", event.id.to_string().into()),
            ("source", source),
            (
                "type",
                text(&event.event_type).unwrap_or((&*event.topic).into()),
            ),
            ("time", time::rfc3339(event.created_at).into()),
            // Padded, as the extension wants texts that sort.
            ("sequence", format!("{:019}", event.sequence).into()),
            ("topic", (&*event.topic).into()),
        ];
        let optional = [
            ("subject", subject),
            ("namespace", namespace.map(Cow::Borrowed)),
            (
                "tenantid",
                event.tenant_id.map(|tenant| tenant.to_string().into()),
            ),
            ("aggregatetype", text(&event.aggregate_type)),
            ("aggregateid", text(&event.aggregate_id)),
            ("partitionkey", text(&event.ordering_key)),
        ];
        attributes.extend(
            optional
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        attributes.extend(trace(event).map(|(name, value)| (name, value.into())));
        attributes
    }

    pub(super) fn structured(&self, event: &Event) -> Bytes {
        let json = is_json(&event.content_type)
            .then(|| serde_json::from_slice::<&RawValue>(&event.payload).ok())
            .flatten();
        let mut attributes = self.attributes(event);
        let encoding = event.headers.get(header::CONTENT_ENCODING);
        attributes.extend(encoding.map(|encoding| ("contentencoding", encoding.into())));
        let whole = Structured {
            attributes,
            content_type: &event.content_type,
            json,
            payload: &event.payload,
        };
        serde_json::to_vec(&whole)
            .expect("texts and a valid value are JSON")
            .into()
    }
}

/// The JSON of structured mode. A payload that is JSON stands as it is; any other is base64.
struct Structured<'e> {
    attributes: Vec<(&'static str, Cow<'e, str>)>,
    content_type: &'e str,
    json: Option<&'e RawValue>,
    payload: &'e [u8],
}

impl Serialize for Structured<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in &self.attributes {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("datacontenttype", self.content_type)?;
        match self.json {
            Some(json) => map.serialize_entry("data", json)?,
            None => {
                let text = base64::engine::general_purpose::STANDARD.encode(self.payload);
                map.serialize_entry("data_base64", &text)?;
            }
        }
        map.end()
    }
}

fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    kind == "application/json" || kind == "text/json" || kind.ends_with("+json")
}
