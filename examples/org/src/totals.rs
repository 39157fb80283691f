//! The sums of what the modules have, what their outboxes hold and what the directory knows: they
//! must agree.

use std::fmt;

use crate::setup::{ModuleError, connect};

/// How much there is of everything, since the database was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Organizations: in the module, in the directory.
    pub organizations: [i64; 2],
    /// Names that the directory has and the module has not.
    pub wrong_names: i64,
    /// Employees: in the module, in the directory.
    pub employees: [i64; 2],
    /// Events of `org`: not delivered yet, delivered, dead.
    pub org_events: [i64; 3],
    /// Events of `hrm`: not delivered yet, delivered, dead.
    pub hrm_events: [i64; 3],
}

const SUMS: &str = "select
    (select count(*) from org.organizations),
    (select count(*) from directory.organizations),
    (select count(*) from directory.organizations d join org.organizations o using (id)
     where (d.name, d.dissolved) <> (o.name, o.dissolved)),
    (select count(*) from hrm.employees),
    (select coalesce(sum(employees), 0)::bigint from directory.organizations),
    (select count(*) from org_outbox where status in ('pending', 'processing')),
    (select count(*) from org_outbox where status = 'delivered'),
    (select count(*) from org_outbox where status = 'dead'),
    (select count(*) from hrm_outbox where status in ('pending', 'processing')),
    (select count(*) from hrm_outbox where status = 'delivered'),
    (select count(*) from hrm_outbox where status = 'dead')";

impl Totals {
    /// Counts.
    pub async fn of(address: &str) -> Result<Self, ModuleError> {
        let client = connect(address)?.get().await?;
        let row = client.query_one(SUMS, &[]).await?;
        let sum = |place: usize| row.get::<_, i64>(place);
        Ok(Self {
            organizations: [0, 1].map(sum),
            wrong_names: sum(2),
            employees: [3, 4].map(sum),
            org_events: [5, 6, 7].map(sum),
            hrm_events: [8, 9, 10].map(sum),
        })
    }

    /// Whether the directory knows all that the modules have, and nothing waits or is dead.
    pub fn agree(&self) -> bool {
        let settled = |[waiting, _, dead]: [i64; 3]| waiting == 0 && dead == 0;
        self.organizations[0] == self.organizations[1]
            && self.employees[0] == self.employees[1]
            && self.wrong_names == 0
            && settled(self.org_events)
            && settled(self.hrm_events)
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "                 in the module  in the directory")?;
        for (what, [module, directory]) in [
            ("organizations", self.organizations),
            ("employees", self.employees),
        ] {
            writeln!(f, "{what:<13}    {module:>13}  {directory:>16}")?;
        }
        writeln!(f, "                       waiting         delivered  dead")?;
        let (org, hrm) = (self.org_events, self.hrm_events);
        for (what, [waiting, delivered, dead]) in [("org_outbox", org), ("hrm_outbox", hrm)] {
            writeln!(f, "{what:<13}    {waiting:>13}  {delivered:>16}  {dead:>4}")?;
        }
        write!(f, "wrong names      {:>13}", self.wrong_names)
    }
}
