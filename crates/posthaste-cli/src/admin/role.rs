//! What a caller may do.

/// Roles, from the least on. Each may do what the ones before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Sees everything but what events say.
    NoPayload,
    /// Sees payloads and headers, too.
    Viewer,
    /// Redelivers, discards, pauses.
    Operator,
}

/// Their names, from the least on.
pub(crate) const ROLES: [&str; 3] = ["viewer-no-payload", "viewer", "operator"];

/// All of them, from the least on.
pub(crate) const ALL: [Role; 3] = [Role::NoPayload, Role::Viewer, Role::Operator];

impl Role {
    /// As it is written in files and shown to people.
    pub(crate) fn name(self) -> &'static str {
        ROLES[self as usize]
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|role| role.name() == name)
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_do_what_the_ones_before_it_may() {
        assert!(Role::NoPayload < Role::Viewer && Role::Viewer < Role::Operator);
        for role in ALL {
            assert_eq!(Role::named(role.name()), Some(role));
        }
        assert_eq!(Role::named("root"), None);
    }
}
