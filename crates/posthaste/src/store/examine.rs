//! What an examination of a database finds: for `doctor`, health checks and dashboards.

/// One thing that was looked at, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, in a word or two.
    pub check: &'static str,
    /// How it was found.
    pub grade: Grade,
    /// What was found.
    pub found: String,
    /// What to do about it. Empty if there is nothing to do.
    pub remedy: String,
}

/// How something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// As it should be.
    Good,
    /// It works, and should be looked at.
    Doubtful,
    /// It does not work.
    Bad,
}

impl Finding {
    /// Something that is as it should be.
    pub fn good(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            grade: Grade::Good,
            found: found.into(),
            remedy: String::new(),
        }
    }

    /// The same, found to be doubtful, with what to do.
    pub fn doubtful(mut self, remedy: impl Into<String>) -> Self {
        self.grade = Grade::Doubtful;
        self.remedy = remedy.into();
        self
    }

    /// The same, found to be bad, with what to do.
    pub fn bad(mut self, remedy: impl Into<String>) -> Self {
        self.grade = Grade::Bad;
        self.remedy = remedy.into();
        self
    }
}
