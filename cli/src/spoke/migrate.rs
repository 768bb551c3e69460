//! `wheelhouse spoke migrate`: from a kro in a spoke to the hub, and back. The hub does it, as the Spoke says; what is printed is its
//! status.

use std::{fmt::Write as _, time::Duration};

use anyhow::{Context, Result, bail};
use api::{
    meta,
    wheelhouse::{MigrationState, MigrationStatus, MigrationTarget},
};
use client::{Endpoint, Patch};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::LOOK_INTERVAL;
use crate::{
    args,
    connect::{self, HubConnection},
    output,
};

/// Plans, prints, and carries out what was planned where that is wanted.
pub(super) async fn run(arguments: args::SpokeMigrate) -> Result<()> {
    let hub = connect::hub(&arguments.hub).await?;
    let endpoint = connect::spokes_endpoint();
    let migration = Migration {
        hub: &hub,
        endpoint,
        name: &arguments.name,
        account: arguments.service_account.as_deref(),
        end: Instant::now() + Duration::from_secs(arguments.timeout),
    };
    let (plan, target) = if arguments.back {
        (MigrationTarget::PlanReturn, MigrationTarget::Kro)
    } else {
        (MigrationTarget::Plan, MigrationTarget::Hub)
    };
    let mut planned = migration.ask(plan).await?;
    let differs = !planned.kro_version.is_empty() && planned.kro_version != planned.hub_version;
    if arguments.yes && !arguments.back && differs {
        migration.name_version(&planned.kro_version).await?;
        planned = migration.ask(plan).await?;
    }
    output::line(&told(&planned, &arguments))?;
    if !arguments.yes {
        return Ok(());
    }
    if !planned.obstacles.is_empty() {
        bail!("nothing was changed: resolve what blocks the plan first");
    }
    let done = migration.ask(target).await?;
    let whose = match done.state {
        MigrationState::Kro => "were given back: start kro again",
        _ => "are managed by the hub",
    };
    let (name, count) = (&arguments.name, done.definitions.len());
    output::line(&format!("{count} definitions of spoke {name} {whose}"))
}

struct Migration<'a> {
    hub: &'a HubConnection,
    endpoint: Endpoint,
    name: &'a str,
    account: Option<&'a str>,
    end: Instant,
}

// === impl Migration ===

impl Migration<'_> {
    /// Says what is wanted and waits until the hub has done it, or has said what keeps it from that.
    async fn ask(&self, to: MigrationTarget) -> Result<MigrationStatus> {
        let spoke = self.read().await?;
        if spoke["spec"]["provider"] == "Embedded" {
            bail!("spoke {} is embedded: no kro runs there", self.name);
        }
        let mut wanted = json!({"to": to});
        let said = spoke["spec"]["migration"]["serviceAccount"].as_str();
        if let Some(account) = self.account.or(said) {
            wanted["serviceAccount"] = json!(account);
        }
        let mut generation = meta::generation(&spoke);
        if spoke["spec"]["migration"] == wanted {
            // Asked once more: what was answered then is of then.
            let nothing = json!({"spec": {"migration": null}});
            generation = meta::generation(&self.patch(&spoke, nothing).await?);
        }
        let asked = self.patch(&spoke, json!({"spec": {"migration": wanted}}));
        generation = generation.max(meta::generation(&asked.await?));
        loop {
            let spoke = self.read().await?;
            let status = &spoke["status"]["migration"];
            let status: MigrationStatus =
                serde_json::from_value(status.clone()).unwrap_or_default();
            if status.observed_generation >= generation && is_answer(to, &status) {
                return Ok(status);
            }
            if Instant::now() >= self.end {
                bail!("{}", self.unanswered(&spoke, &status));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    fn unanswered(&self, spoke: &Value, status: &MigrationStatus) -> String {
        let message = spoke["status"]["message"].as_str().unwrap_or_default();
        let mut text = format!(
            "spoke {} is not migrated yet; the hub continues. {message}",
            self.name
        );
        for reason in status.obstacles.iter().chain(&status.notes) {
            // Writing to a String cannot fail.
            let _infallible = write!(text, "\n- {reason}");
        }
        text
    }

    /// Has labels in the spoke stay as kro wrote them.
    async fn name_version(&self, version: &str) -> Result<()> {
        let spoke = self.read().await?;
        let patch = json!({"spec": {"kro": {"version": version}}});
        self.patch(&spoke, patch).await.map(drop)
    }

    async fn read(&self) -> Result<Value> {
        let read = self.hub.dynamic.get(&self.endpoint, self.name).await;
        read.map_err(|error| connect::about_spoke(self.name, error))
    }

    async fn patch(&self, spoke: &Value, mut patch: Value) -> Result<Value> {
        patch["metadata"] = json!({"uid": meta::uid(spoke)});
        let patch = Patch::Merge(&patch);
        let patched = self
            .hub
            .dynamic
            .patch(&self.endpoint, self.name, None, patch);
        let patched = patched.await;
        patched.with_context(|| format!("spoke {}", self.name))
    }
}

/// Whether the hub has said all that it can say.
fn is_answer(to: MigrationTarget, status: &MigrationStatus) -> bool {
    match to {
        MigrationTarget::Plan | MigrationTarget::PlanReturn => true,
        MigrationTarget::Hub => status.state == MigrationState::Hub,
        MigrationTarget::Kro => status.state == MigrationState::Kro,
    }
}

/// Words a plan.
fn told(plan: &MigrationStatus, arguments: &args::SpokeMigrate) -> String {
    let name = &arguments.name;
    let mut text = if arguments.back {
        format!("plan for spoke {name}: give its definitions back to kro\n")
    } else {
        // A spoke where no kro runs, or not any more, tells no version.
        let kro = format!("kro {}", plan.kro_version);
        format!("plan for spoke {name}: take over from {}\n", kro.trim_end())
    };
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    for it in &plan.definitions {
        line(format!(
            "  rgd/{}  {}  {}  {} revisions  {} instances",
            it.name, it.kind, it.state, it.revisions, it.instances
        ));
    }
    let children = plan
        .children
        .iter()
        .map(|it| format!("{} {}", it.count, it.kind));
    let children: Vec<String> = children.collect();
    if !children.is_empty() {
        line(format!("  children: {}", children.join(", ")));
    }
    for note in &plan.notes {
        line(format!("  note: {note}"));
    }
    for obstacle in &plan.obstacles {
        line(format!("  blocked: {obstacle}"));
    }
    line(match (plan.obstacles.is_empty(), arguments.yes) {
        (true, false) => "nothing was changed; --yes carries the plan out".to_owned(),
        (true, true) => {
            "carrying the plan out: no child in the spoke is created or deleted".to_owned()
        }
        (false, _) => "the plan cannot be carried out yet".to_owned(),
    });
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_an_answer_and_a_migration_is_one_when_it_is_done() {
        let of = |state| MigrationStatus {
            state,
            ..MigrationStatus::default()
        };
        for (to, state, want) in [
            (MigrationTarget::Plan, MigrationState::Planned, true),
            (MigrationTarget::Hub, MigrationState::Planned, false),
            (MigrationTarget::Hub, MigrationState::Taking, false),
            (MigrationTarget::Hub, MigrationState::Hub, true),
            (MigrationTarget::Kro, MigrationState::Returning, false),
            (MigrationTarget::Kro, MigrationState::Kro, true),
        ] {
            assert_eq!(is_answer(to, &of(state)), want, "{to:?} {state:?}");
        }
    }
}
