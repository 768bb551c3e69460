//! `wheelhouse fleet watch`: the fleet as it changes. On a terminal the table is drawn anew; elsewhere each change is a line with its time.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use anyhow::{Context, Result};
use client::reflector::{self, Event, RawObject};
use tasks::Tasks;
use tokio::sync::mpsc;

use super::row::{Row, State};
use crate::{args, connect, output, process};

/// How long changes are gathered before the table is drawn.
const GATHER: Duration = Duration::from_millis(100);
/// How long tasks have to end.
const GRACE: Duration = Duration::from_secs(1);
/// Cells of a bar.
const BAR_WIDTH: i64 = 16;

/// What is known of the fleet.
#[derive(Debug, Default)]
struct Fleet {
    rows: BTreeMap<String, Row>,
    /// Why the hub cannot be read now.
    trouble: Option<String>,
}

/// Shows the fleet until SIGINT or SIGTERM.
pub(super) async fn run(arguments: &args::FleetWatch) -> Result<()> {
    let hub = connect::hub(&arguments.hub).await?;
    super::rows(&hub).await?; // who may not read Spokes is told, and not kept waiting
    let tasks = Tasks::new();
    let config = reflector::Config {
        client: hub.dynamic.client().clone(),
        endpoint: connect::spokes_endpoint(),
        label_selector: None,
        field_selector: None,
        name: "spokes".to_owned(),
    };
    let events = reflector::start(config, &tasks, tasks.child_token());
    let shown = tokio::select! {
        shown = follow(events) => shown,
        stopped = process::stopped() => stopped,
    };
    tasks.shutdown(GRACE).await;
    shown
}

async fn follow(mut events: mpsc::Receiver<Event>) -> Result<()> {
    let is_terminal = std::io::stdout().is_terminal();
    let mut fleet = Fleet::default();
    while let Some(event) = events.recv().await {
        let before = fleet.rows.clone();
        let trouble_before = fleet.trouble.clone();
        fleet.take(event);
        if is_terminal {
            let until = tokio::time::Instant::now() + GATHER;
            while let Ok(Some(event)) = tokio::time::timeout_at(until, events.recv()).await {
                fleet.take(event);
            }
            fleet.draw()?;
        } else {
            let reach = reach(trouble_before.as_deref(), fleet.trouble.as_deref());
            for line in reach.into_iter().chain(fleet.changes(&before)) {
                output::line(&format!(
                    "{} {line}",
                    api::meta::time_now_text(jiff::Timestamp::now())
                ))?;
            }
        }
    }
    Ok(())
}

/// Returns what there is to say of the hub itself, which is read or is not.
fn reach(before: Option<&str>, now: Option<&str>) -> Option<String> {
    match (before, now) {
        (None, Some(trouble)) => Some(output::harmless(&format!(
            "The hub cannot be read; what is above was last known: {trouble}"
        ))),
        (Some(_), None) => Some("The hub is read again".to_owned()),
        (None, None) | (Some(_), Some(_)) => None,
    }
}

fn read(object: &RawObject) -> Option<Row> {
    object.value().ok().map(|spoke| Row::of(&spoke))
}

/// Returns a bar of the instances that are ready.
fn bar(row: &Row) -> String {
    let (ready, total) = (row.instances.ready.max(0), row.instances.total);
    if total <= 0 {
        return " ".repeat(usize::try_from(BAR_WIDTH).unwrap_or_default());
    }
    let full = ready.min(total).saturating_mul(BAR_WIDTH) / total;
    let cell = |index| if index < full { '█' } else { '░' };
    (0..BAR_WIDTH).map(cell).collect()
}

// === impl Fleet ===

impl Fleet {
    fn take(&mut self, event: Event) {
        match event {
            Event::Restarted { objects, .. } => {
                self.trouble = None;
                let rows = objects.iter().filter_map(|object| read(object));
                self.rows = rows.map(|row| (row.name.clone(), row)).collect();
            }
            Event::Applied(object) => {
                self.rows
                    .extend(read(&object).map(|row| (row.name.clone(), row)));
            }
            Event::Deleted(object) => {
                self.rows.remove(&object.name);
            }
            Event::Interrupted(reason) => self.trouble = Some(reason),
            Event::Resumed => self.trouble = None,
        }
    }

    /// Returns a line for each spoke that is shown otherwise than before.
    fn changes(&self, before: &BTreeMap<String, Row>) -> Vec<String> {
        let look = |row: &Row| {
            (
                row.state,
                row.share(),
                row.version.clone(),
                row.message.clone(),
            )
        };
        let now = self.rows.values();
        let changed = now.filter(|row| before.get(&row.name).map(look) != Some(look(row)));
        let gone = before.keys().filter(|name| !self.rows.contains_key(*name));
        let changed = changed.map(|row| {
            let (name, state, share) = (&row.name, row.state.word(), row.share());
            let told = format!("{name} {state} {share} {}", row.message);
            output::harmless(told.trim_end())
        });
        changed
            .chain(gone.map(|name| format!("{name} Gone")))
            .collect()
    }

    fn draw(&self) -> Result<()> {
        let mut rows: Vec<&Row> = self.rows.values().collect();
        rows.sort_by(|a, b| a.in_order(b));
        let now = jiff::Timestamp::now();
        let head = [
            "SPOKE",
            "STATE",
            "READY",
            "INSTANCES",
            "VERSION",
            "HEARD",
            "MESSAGE",
        ];
        let mut cells = vec![head.map(str::to_owned).to_vec()];
        cells.extend(rows.iter().map(|row| {
            vec![
                row.name.clone(),
                row.state.word().to_owned(),
                bar(row),
                row.share(),
                row.version.clone(),
                row.heard(now),
                row.message.clone(),
            ]
        }));
        let well = rows.iter().filter(|row| row.state == State::Ready).count();
        let mut screen = format!("\u{1b}[H\u{1b}[2J{well} of {} spokes are ready", rows.len());
        if let Some(trouble) = &self.trouble {
            screen.push_str("; the hub cannot be read: ");
            screen.push_str(&output::harmless(trouble));
        }
        screen.push_str("\n\n");
        for line in output::aligned(&cells) {
            screen.push_str(&line);
            screen.push('\n');
        }
        let mut out = std::io::stdout();
        out.write_all(screen.as_bytes())
            .and_then(|()| out.flush())
            .context("standard output is closed")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(name: &str, ready: i64, total: i64) -> Row {
        Row::of(&json!({"metadata": {"name": name}, "status": {
            "instances": {"ready": ready, "total": total},
            "conditions": [{"type": "Ready", "status": "True"}]}}))
    }

    #[test]
    fn a_bar_is_as_full_as_instances_are_ready() {
        for (ready, total, full) in [
            (0, 0, 0),
            (0, 4, 0),
            (1, 4, 4),
            (4, 4, 16),
            (9, 4, 16),
            (-1, 4, 0),
        ] {
            let bar = bar(&row("a", ready, total));
            assert_eq!(bar.chars().count(), 16, "{ready}/{total}");
            assert_eq!(bar.matches('█').count(), full, "{ready}/{total}");
        }
    }

    #[test]
    fn what_is_shown_otherwise_is_a_line() {
        let rows = |rows: &[Row]| -> BTreeMap<String, Row> {
            rows.iter()
                .map(|row| (row.name.clone(), row.clone()))
                .collect()
        };
        let before = rows(&[row("a", 1, 1), row("b", 0, 1), row("c", 1, 1)]);
        let fleet = Fleet {
            rows: rows(&[row("a", 1, 1), row("b", 1, 1), row("d", 0, 0)]),
            trouble: None,
        };
        assert_eq!(
            fleet.changes(&before),
            ["b Ready 1/1", "d Ready 0/0", "c Gone"]
        );
    }
}
