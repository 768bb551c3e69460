//! `wheelhouse fleet waiting`: the instances that are not ready, each with the node in the way.

use std::io::{self, IsTerminal as _};

use anyhow::Result;
use serde_json::json;

use super::{
    held::Waiting,
    matrix::{self, Matrix},
    print,
};
use crate::{
    args, connect,
    output::{self, Format},
};

/// Characters of a message in a table.
const MESSAGE_CHAR_COUNT_MAX: usize = 120;
/// What kro says before each cause.
const PREFIXES: [&str; 2] = [
    "resource reconciliation failed: ",
    "apply results contain errors: ",
];

/// Prints them.
pub(super) async fn show(arguments: &args::FleetWaiting) -> Result<()> {
    let hub = connect::hub(&arguments.hub).await?;
    if let Some(name) = arguments.cluster.as_deref()
        && name != api::cluster::ROOT
    {
        let endpoint = connect::spokes_endpoint();
        let spoke = hub.dynamic.get(&endpoint, name).await;
        spoke.map_err(|error| connect::about_spoke(name, error))?;
    }
    let Matrix { lines, mut unknown } = matrix::read(&hub.dynamic).await?;
    for line in &lines {
        line.tell();
        if let Some(failure) = &line.failure {
            output::note(&format!("{}: not read: {failure}", line.definition));
        }
    }
    // Who may not read Spokes is told by the lists alone.
    let mut stale = matrix::stale(&super::rows(&hub).await.unwrap_or_default());
    if let Some(only) = &arguments.cluster {
        unknown.retain(|cluster, _| cluster == only);
        stale.retain(|cluster| cluster == only);
    }
    matrix::tell_of_clusters(&unknown, &stale);
    let is_short =
        !unknown.is_empty() || !stale.is_empty() || lines.iter().any(|line| line.failure.is_some());
    let is_wanted = |it: &Waiting| {
        arguments
            .cluster
            .as_ref()
            .is_none_or(|name| *name == it.cluster)
    };
    let has_instances = lines.iter().any(matrix::Line::has_instances);
    let waiting: Vec<Waiting> = lines
        .into_iter()
        .flat_map(|line| line.waiting)
        .filter(is_wanted)
        .collect();
    match arguments.output {
        None | Some(Format::Wide) => {
            let empty = match &arguments.cluster {
                _ if is_short => "None of the instances that could be read is waiting".to_owned(),
                Some(name) => format!("No instance of {name} is waiting"),
                None if has_instances => "Every instance is ready".to_owned(),
                None => "No instances found".to_owned(),
            };
            let is_cut = arguments.output.is_none() && io::stdout().is_terminal();
            print(&table(&waiting, is_cut), &empty)
        }
        Some(Format::Name) => waiting
            .iter()
            .try_for_each(|it| output::line(&it.address())),
        Some(format) => output::object(
            &json!({ "waiting": waiting, "stale": stale, "unknown": unknown }),
            format,
        ),
    }
}

/// Returns the part of a message that fits, without what stands before every one of them.
fn shortened(message: &str) -> String {
    let own = PREFIXES.iter().fold(message, |message, prefix| {
        message.strip_prefix(prefix).unwrap_or(message)
    });
    let mut short: String = own.chars().take(MESSAGE_CHAR_COUNT_MAX).collect();
    if short.len() < own.len() {
        short.push('…');
    }
    short
}

/// One line for each; `is_cut` where a terminal would break long ones.
fn table(waiting: &[Waiting], is_cut: bool) -> Vec<Vec<String>> {
    let head = [
        "CLUSTER", "KIND", "INSTANCE", "STATE", "NODE", "REASON", "MESSAGE",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for it in waiting {
        let message = if is_cut {
            shortened(&it.message)
        } else {
            it.message.clone()
        };
        let node = Some(it.node.as_str()).filter(|node| !node.is_empty());
        lines.push(vec![
            it.cluster.clone(),
            it.kind.clone(),
            it.place(),
            it.state.clone(),
            node.unwrap_or("-").to_owned(),
            it.reason.clone(),
            message,
        ]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_does_not_fit_begins_with_its_cause_and_shows_that_it_goes_on() {
        let long = "é".repeat(MESSAGE_CHAR_COUNT_MAX + 1);
        for (message, want) in [
            ("", String::new()),
            ("a cause", "a cause".to_owned()),
            (
                "resource reconciliation failed: apply results contain errors: a cause",
                "a cause".to_owned(),
            ),
            (&long, format!("{}…", "é".repeat(MESSAGE_CHAR_COUNT_MAX))),
        ] {
            assert_eq!(shortened(message), want, "{message}");
        }
    }
}
