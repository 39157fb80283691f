//! Why a template cannot work, or makes no name of an event.

use super::Field;

/// Why a template cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// It names a field that events do not have.
    #[error(
        "template {template:?} names the field {field:?}, which is not there: use one of {}",
        known()
    )]
    UnknownField {
        /// The template.
        template: String,
        /// The field.
        field: String,
    },
    /// A brace has no partner.
    #[error(
        "template {template:?} has a brace without its partner: write {{{{ or }}}} for a brace itself"
    )]
    Brace {
        /// The template.
        template: String,
    },
    /// The template's own text cannot stand in a name of this destination.
    #[error("template {template:?} has {character:?} in it, which {what} cannot have")]
    Character {
        /// The template.
        template: String,
        /// The character.
        character: char,
        /// What is named.
        what: &'static str,
    },
    /// It is empty.
    #[error("a template must not be empty")]
    Empty,
}

impl TemplateError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownField { .. } => "template.unknown_field",
            Self::Brace { .. } => "template.brace",
            Self::Character { .. } => "template.character",
            Self::Empty => "template.empty",
        }
    }
}

/// Why an event has no name by a template: it can never be delivered there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The event does not have a field.
    #[error(
        "the event has no {field}, which {template:?} needs: give a default, as in {{{field}|none}}"
    )]
    Missing {
        /// The template.
        template: String,
        /// The field.
        field: &'static str,
    },
    /// A field has a character that the destination does not allow.
    #[error("the event's {field} has {character:?} in it, which {what} cannot have")]
    Character {
        /// The field.
        field: &'static str,
        /// The character.
        character: char,
        /// What is named.
        what: &'static str,
    },
    /// The name is no good as a whole.
    #[error("{template:?} makes of the event what {what} cannot be: {why}")]
    Whole {
        /// The template.
        template: String,
        /// What is named.
        what: &'static str,
        /// What is wrong.
        why: &'static str,
    },
}

fn known() -> String {
    Field::ALL.map(|(name, _)| name).join(", ")
}
