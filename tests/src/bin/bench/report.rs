//! What a benchmark found: rows of ours, theirs, the ratio, and the bar.

use std::io::Write as _;

use crate::measure::Series;

/// The rows of one run.
pub(crate) struct Report {
    command: String,
    rows: Vec<Row>,
    notes: Vec<String>,
}

struct Row {
    what: String,
    unit: &'static str,
    ours: Series,
    peer: Series,
    better: Better,
    wanted: Option<f64>,
}

/// Which direction is the better one.
#[derive(Clone, Copy)]
pub(crate) enum Better {
    /// More is better: a rate.
    More,
    /// Less is better: a cost.
    Less,
}

// === impl Report ===

impl Report {
    /// Begins a report of a command.
    pub(crate) fn new(command: &str) -> Self {
        Self {
            command: command.to_owned(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a row, or what another round said to that of its name; a side that was not measured is an empty series.
    pub(crate) fn row(
        &mut self,
        what: &str,
        unit: &'static str,
        ours: impl Into<Series>,
        peer: impl Into<Series>,
        better: Better,
    ) {
        let (ours, peer) = (ours.into(), peer.into());
        if let Some(row) = self.rows.iter_mut().find(|row| row.what == what) {
            row.ours.append(ours);
            row.peer.append(peer);
            return;
        }
        self.rows.push(Row {
            what: what.to_owned(),
            unit,
            ours,
            peer,
            better,
            wanted: None,
        });
    }

    /// Sets the target of the last row that was added.
    pub(crate) fn wanted(&mut self, value: f64) {
        if let Some(row) = self.rows.last_mut() {
            row.wanted = Some(value);
        }
    }

    /// Sets the target of a row.
    pub(crate) fn wanted_of(&mut self, what: &str, value: f64) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.what == what) {
            row.wanted = Some(value);
        }
    }

    /// Adds a line of text below the rows.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Prints the table.
    pub(crate) fn print(&self) {
        say(&self.text());
    }

    /// Writes the table to a file.
    pub(crate) fn write(&self, file: &str) {
        if let Err(error) = std::fs::write(file, self.text()) {
            say(&format!("cannot write {file}: {error}"));
        }
    }

    fn text(&self) -> String {
        let mut text = format!("Command: `{}`\n\n", self.command);
        if !self.rows.is_empty() {
            text.push_str("| what | unit | ours | peer | we are better by | wanted |\n");
            text.push_str("|---|---|---|---|---|---|\n");
        }
        for row in &self.rows {
            text.push_str(&row.text());
            text.push('\n');
        }
        for note in &self.notes {
            text.push('\n');
            text.push_str(note);
            text.push('\n');
        }
        text
    }
}

// === impl Row ===

impl Row {
    fn text(&self) -> String {
        let (ours, peer) = (self.ours.median(), self.peer.median());
        let ratio = match self.better {
            Better::More => ours / peer,
            Better::Less => peer / ours,
        };
        let ratio = if ratio.is_finite() {
            format!("{ratio:.1}x")
        } else {
            String::new()
        };
        let wanted = self.wanted.map(|wanted| match self.better {
            Better::More => format!(">= {}: {}", figure(wanted), met(ours >= wanted)),
            Better::Less => format!("<= {}: {}", figure(wanted), met(ours <= wanted)),
        });
        format!(
            "| {} | {} | {} | {} | {ratio} | {} |",
            self.what,
            self.unit,
            cell(&self.ours),
            cell(&self.peer),
            wanted.unwrap_or_default()
        )
    }
}

const fn met(met: bool) -> &'static str {
    if met { "met" } else { "short" }
}

/// The median, and from where to where the rounds went.
pub(crate) fn cell(series: &Series) -> String {
    if series.is_empty() {
        return String::new();
    }
    let median = figure(series.median());
    match series.range() {
        Some((least, greatest)) => format!("{median} ({}-{})", figure(least), figure(greatest)),
        None => median,
    }
}

/// As many digits as mean something.
fn figure(value: f64) -> String {
    let text = if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    };
    let Some((whole, rest)) = text.split_once('.') else {
        return text;
    };
    if rest.bytes().all(|digit| digit == b'0') {
        whole.to_owned()
    } else {
        text
    }
}

/// Prints progress and results.
pub(crate) fn say(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}
