use super::*;
use crate::sample;

const STRICT: Rule = Rule {
    what: "a topic",
    allows: |_, c| c.is_ascii_alphanumeric() || "._-".contains(c),
    otherwise: Otherwise::Reject,
    longest: 249,
    whole: |name| match name {
        "." | ".." => Err("it must not be . or .."),
        _ => Ok(()),
    },
};

const ESCAPED: Rule = Rule {
    what: "a subject",
    // A dot of a topic parts the subject; in any other field it would add a part.
    allows: |field, c| {
        c.is_ascii_graphic()
            && !"*>".contains(c)
            && (c != '.' || matches!(field, None | Some(Field::Topic)))
    },
    otherwise: Otherwise::Escape,
    longest: 100,
    whole: |_| Ok(()),
};

fn template(text: &str) -> Template {
    Template::parse(text).unwrap()
}

#[tokio::test]
async fn fields_are_filled_in() {
    let event = sample::full().await;
    for (text, name) in [
        ("orders", "orders"),
        ("{topic}", "shop.order.placed.v1"),
        ("{namespace}.{topic}", "eu.shop.order.placed.v1"),
        ("{tenant}", "00000000-0000-0000-0000-000000000007"),
        ("{event_type}-{aggregate_type}", "OrderPlaced-Order"),
        (
            "{table}/{id}",
            "shop%2Eorders/00000000-0000-0000-0000-000000000001",
        ),
        ("{key}", "42/a%2Eb"),
        ("{aggregate_id}", "%E2%84%96%2042"),
        ("{{{topic}}}", "{shop.order.placed.v1}"),
        ("{tenant|none}", "00000000-0000-0000-0000-000000000007"),
    ] {
        assert_eq!(
            template(text).render(&event, &ESCAPED).unwrap(),
            name,
            "{text}"
        );
    }
}

#[tokio::test]
async fn what_an_event_lacks_is_its_default_or_a_failure() {
    let event = sample::plain().await;
    let of = |text: &str| template(text).render(&event, &ESCAPED);
    assert_eq!(of("a.{tenant|none}").unwrap(), "a.none");
    assert_eq!(of("a{namespace|}").unwrap(), "a");
    assert_eq!(of("{key}").unwrap(), event.id.to_string());
    for text in ["{tenant}", "{namespace}", "{event_type}", "{aggregate_id}"] {
        assert!(
            matches!(of(text), Err(RenderError::Missing { .. })),
            "{text}"
        );
    }
    assert!(of("{namespace|}").is_err(), "an empty name");
}

#[tokio::test]
async fn what_a_destination_does_not_allow_is_refused() {
    let mut event = sample::full().await;
    let of = |text: &str, event: &Event| template(text).render(event, &STRICT);
    let error = of("{aggregate_id}", &event).unwrap_err();
    assert!(matches!(
        error,
        RenderError::Character {
            character: '№',
            field: "aggregate_id",
            ..
        }
    ));
    event.aggregate_id = Some("..".to_owned());
    assert!(of("{aggregate_id}", &event).is_err());
    assert!(of("a{aggregate_id}", &event).is_ok());
    event.aggregate_id = Some("x".repeat(250));
    assert!(of("{aggregate_id}", &event).is_err());
}

#[test]
fn a_template_that_cannot_work_is_refused_with_what_could() {
    for (text, code) in [
        ("{tpoic}", "template.unknown_field"),
        ("{}", "template.unknown_field"),
        ("{ topic }", "template.unknown_field"),
        ("{payload|x}", "template.unknown_field"),
        ("{topic", "template.brace"),
        ("topic}", "template.brace"),
        ("", "template.empty"),
    ] {
        assert_eq!(Template::parse(text).unwrap_err().code(), code, "{text}");
    }
    let error = Template::parse("a.{tpoic}").unwrap_err().to_string();
    assert!(
        error.contains("\"tpoic\"") && error.contains("topic, namespace, tenant"),
        "{error}"
    );
    assert!(template("a.{topic}").check(&STRICT).is_ok());
    assert_eq!(
        template("a b.{topic}").check(&STRICT).unwrap_err().code(),
        "template.character"
    );
    assert_eq!(
        template("{tenant|a b}").check(&STRICT).unwrap_err().code(),
        "template.character"
    );
}
