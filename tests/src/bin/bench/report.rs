//! What a benchmark found: rows of ours, theirs, and the ratio.

use std::io::Write as _;

/// The rows of one run.
pub(crate) struct Report {
    name: String,
    rows: Vec<Row>,
    notes: Vec<String>,
}

struct Row {
    what: String,
    unit: &'static str,
    ours: f64,
    peer: f64,
    better: Better,
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
    /// Begins a report.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn row(
        &mut self,
        what: &str,
        unit: &'static str,
        ours: f64,
        peer: f64,
        better: Better,
    ) {
        self.rows.push(Row {
            what: what.to_owned(),
            unit,
            ours,
            peer,
            better,
        });
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
        let mut text = format!("Command: `hack/bench {}`\n\n", self.name);
        text.push_str("| what | unit | ours | peer | we are better by |\n|---|---|---|---|---|\n");
        for row in &self.rows {
            let ratio = match row.better {
                Better::More => row.ours / row.peer,
                Better::Less => row.peer / row.ours,
            };
            let line = format!(
                "| {} | {} | {:.2} | {:.2} | {ratio:.1}x |",
                row.what, row.unit, row.ours, row.peer
            );
            text.push_str(&line);
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

/// Prints progress and results.
pub(crate) fn say(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}
