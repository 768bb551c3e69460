//! `wheelhouse fleet`: the fleet in a terminal, the spokes in trouble first.
//!
//! [`row`] turns a Spoke into what is shown of it, [`matrix`] counts instances by definition and cluster, [`waiting`] names
//! the nodes in the way of those that are not ready, and [`watch`] shows the
//! fleet until it is ended. Everything is read over the hub's API, with the caller's own rights.

mod everywhere;
mod held;
mod matrix;
mod row;
mod waiting;
mod watch;

use anyhow::Result;
use client::ListRequest;
use serde_json::json;

use self::row::Row;
use crate::{
    args,
    connect::{self, HubConnection},
    output::{self, Format},
};

/// Runs one of the commands.
pub(crate) async fn run(arguments: args::Fleet) -> Result<()> {
    match arguments.view {
        None => show(&arguments).await,
        Some(args::FleetView::Matrix(wanted)) => matrix::show(&wanted).await,
        Some(args::FleetView::Waiting(wanted)) => waiting::show(&wanted).await,
        Some(args::FleetView::Watch(wanted)) => watch::run(&wanted).await,
    }
}

async fn show(arguments: &args::Fleet) -> Result<()> {
    let hub = connect::hub(&arguments.hub).await?;
    let rows = rows(&hub).await?;
    match arguments.output {
        None | Some(Format::Wide) => {
            print(&row::table(&rows, arguments.output), NO_SPOKES)?;
            tell_of_definitions(&hub).await;
            Ok(())
        }
        Some(Format::Name) => {
            let mut names = rows.iter().map(|row| &row.name);
            names.try_for_each(|name| output::line(&format!("spoke.wheelhouse.dev/{name}")))
        }
        Some(format) => output::object(&json!({ "spokes": rows }), format),
    }
}

/// Tells how many definitions are not in use, as far as the user may read them: no spoke says so.
async fn tell_of_definitions(hub: &HubConnection) {
    let Ok(definitions) = matrix::definitions(&hub.dynamic).await else {
        return;
    };
    let inactive = definitions
        .items
        .iter()
        .filter(|it| matrix::is_inactive(it));
    match inactive.count() {
        0 => {}
        1 => output::note("1 definition is inactive: see wheelhouse fleet matrix"),
        count => output::note(&format!(
            "{count} definitions are inactive: see wheelhouse fleet matrix"
        )),
    }
}

/// Reads all Spokes, the ones in trouble first.
async fn rows(hub: &HubConnection) -> Result<Vec<Row>> {
    let listed = hub
        .dynamic
        .list(&connect::spokes_endpoint(), &ListRequest::default())
        .await
        .map_err(connect::about_spokes)?;
    let mut rows: Vec<Row> = listed.items.iter().map(Row::of).collect();
    rows.sort_by(Row::in_order);
    Ok(rows)
}

/// What a fleet without spokes is told.
const NO_SPOKES: &str = "No spokes yet: wheelhouse spoke add NAME --from KUBECONFIG";

/// Prints a table, or `empty` where it has no line but its head.
fn print(lines: &[Vec<String>], empty: &str) -> Result<()> {
    if lines.len() <= 1 {
        return output::line(empty);
    }
    output::aligned(lines)
        .iter()
        .try_for_each(|line| output::line(line))
}
