//! What the command line prints.

use std::io::Write;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::Value;

/// How a table or an object is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// As JSON.
    Json,
    /// As YAML.
    Yaml,
    /// As a table with all columns.
    Wide,
    /// Names only.
    Name,
}

/// Prints a line of the result, or several, harmless each.
pub(crate) fn line(text: &str) -> Result<()> {
    text.split('\n').try_for_each(|line| whole(&harmless(line)))
}

/// Prints a text as it is.
pub(crate) fn whole(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context("standard output is closed")
}

/// Reports progress on standard error.
pub(crate) fn note(text: &str) {
    // Nobody is left to tell when standard error is gone.
    drop(writeln!(
        std::io::stderr(),
        "wheelhouse: {}",
        harmless(text)
    ));
}

/// Reports on standard error why a command failed.
pub(crate) fn complain(error: &anyhow::Error) {
    // Nobody is left to tell when standard error is gone.
    drop(writeln!(
        std::io::stderr(),
        "wheelhouse: {}",
        harmless(&told(error))
    ));
}

/// Renders an error with its causes on one line; what went wrong with a call is told in the client's words.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let call = cause.downcast_ref::<client::Error>();
        let level = call.map_or_else(|| cause.to_string(), client::Error::chain);
        if text.is_empty() {
            text = level;
        } else if !text.ends_with(&level) {
            text.push_str(": ");
            text.push_str(&level);
        }
        if call.is_some() {
            break;
        }
    }
    text
}

/// Prints an object or a list in full, as a file would hold it.
pub(crate) fn object(value: &Value, format: Format) -> Result<()> {
    match format {
        Format::Json => whole(&serde_json::to_string_pretty(value)?),
        _ => whole(dialect::yaml::to_string(value)?.trim_end()),
    }
}

/// Which columns of a Table are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// Those that kubectl prints without `-o wide`, and one more.
    With(&'static str),
    /// All of them.
    All,
}

/// Prints a Table that the server made, as kubectl does.
pub(crate) fn table(table: &Value, wanted: Columns) -> Result<()> {
    let columns: Vec<&Value> = array(&table["columnDefinitions"]);
    let is_shown = |column: &Value| match wanted {
        Columns::All => true,
        Columns::With(name) => column["priority"] == 0 || column["name"] == name,
    };
    let shown: Vec<usize> = (0..columns.len())
        .filter(|index| columns.get(*index).is_some_and(|column| is_shown(column)))
        .collect();
    let title = |index: &usize| {
        columns
            .get(*index)
            .and_then(|c| c["name"].as_str())
            .unwrap_or_default()
            .to_uppercase()
    };
    let mut lines: Vec<Vec<String>> = vec![shown.iter().map(title).collect()];
    for row in array(&table["rows"]) {
        let cells = array(&row["cells"]);
        lines.push(
            shown
                .iter()
                .map(|index| cell(cells.get(*index).copied()))
                .collect(),
        );
    }
    if lines.len() == 1 {
        return line("No resources found");
    }
    for text in aligned(&lines) {
        line(&text)?;
    }
    Ok(())
}

/// Returns a text without what a terminal would obey: a spoke, or a tenant of one, worded it.
pub(crate) fn harmless(text: &str) -> String {
    let shown = |it: char| if it.is_control() { ' ' } else { it };
    text.chars().map(shown).collect()
}

/// Returns lines whose cells are as wide as the widest of their column, and harmless.
pub(crate) fn aligned(lines: &[Vec<String>]) -> Vec<String> {
    let count = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..count)
        .map(|index| {
            let cells = lines.iter().filter_map(|line| line.get(index));
            cells
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or_default()
        })
        .collect();
    lines
        .iter()
        .map(|line| {
            let cells = line.iter().zip(&widths);
            let padded: Vec<String> = cells
                .map(|(cell, width)| format!("{:<width$}", harmless(cell)))
                .collect();
            padded.join("   ").trim_end().to_owned()
        })
        .collect()
}

fn array(value: &Value) -> Vec<&Value> {
    value.as_array().into_iter().flatten().collect()
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "<none>".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_follow_on_one_line_each_once() {
        let call = anyhow::Error::from(client::Error::Transport("gone".into()));
        let call = call.context("spoke east").context("it is not joined");
        assert_eq!(
            told(&call),
            "it is not joined: spoke east: the server was not reached: gone",
            "a call"
        );
        let repeated = anyhow::anyhow!("gone").context("the file is gone");
        assert_eq!(told(&repeated), "the file is gone", "a cause is told once");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = [["NAME", "READY"], ["a-long-name", "True"]]
            .map(|line| line.map(str::to_owned).to_vec());
        assert_eq!(
            aligned(&lines),
            ["NAME          READY", "a-long-name   True"],
            "as kubectl"
        );
    }

    #[test]
    fn no_cell_obeys_its_writer() {
        let cells = ["v1\u{1b}]52;c;eA==\u{7}", "a\u{9b}2J\nb"].map(str::to_owned);
        let lines = aligned(&[cells.to_vec()]);
        assert_eq!(lines, ["v1 ]52;c;eA==    a 2J b"]);
    }
}
