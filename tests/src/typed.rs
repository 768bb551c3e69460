//! Pages of the documentation as a reader follows them: files to save, commands to type, and what these print.

use std::{path::Path, process::Stdio, sync::OnceLock};

use regex::Regex;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

/// Something that a page tells its reader to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// To save a file.
    Save {
        /// Its name, which the text before it says last.
        name: String,
        /// What is in it.
        content: String,
    },
    /// To run a script.
    Script(String),
    /// To type one command.
    Type {
        /// The command, of one line or more.
        command: String,
        /// What the page shows below it.
        shown: String,
    },
}

/// Returns the steps of a page of Markdown, in its order: those in blocks of `yaml`, `sh` and `console`.
///
/// # Panics
///
/// At a block of another language, and at a file that has no name.
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut before = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            before.push_str(line);
            before.push('\n');
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        assert!(
            ["yaml", "sh", "console"].contains(&language),
            "a block of {language:?}"
        );
        match language {
            "yaml" => steps.push(Step::Save {
                name: file_name(&before).to_owned(),
                content: block.join("\n") + "\n",
            }),
            "sh" => steps.push(Step::Script(block.join("\n"))),
            _ => steps.extend(typed(&block)),
        }
        before.clear();
    }
    steps
}

/// Returns the commands of a page of Markdown, in its order: those after a prompt in blocks of `console`, and the lines of blocks of
/// `sh`. A command goes on after a backslash, and a block with a here document is one command. Comments are no part of it.
///
/// # Panics
///
/// At a block of `console` that does not begin with a prompt.
pub fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut lines = page.lines().map(str::trim_start);
    while let Some(line) = lines.next() {
        let language = match line.strip_prefix("```") {
            Some(language) if !language.is_empty() => language,
            Some(_) | None => continue,
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let prompt = match language {
            "console" => "$ ",
            "sh" => "",
            _ => continue,
        };
        if block.iter().any(|line| line.contains("<<")) {
            commands.push(block.join("\n").trim_start_matches(prompt).to_owned());
            continue;
        }
        let first = block.first().copied().unwrap_or_default();
        assert!(
            first.starts_with(prompt),
            "a prompt comes first, not {first:?}"
        );
        let mut block = block.into_iter();
        while let Some(line) = block.next() {
            let Some(line) = line.strip_prefix(prompt) else {
                continue; // what the command before it prints
            };
            let mut command = line.to_owned();
            while command.ends_with('\\') {
                command.push('\n');
                command.push_str(block.next().expect("the command goes on"));
            }
            let told = command
                .split_once("  # ")
                .map_or(&*command, |(told, _)| told);
            commands.push(told.trim_end().to_owned());
        }
    }
    commands
}

/// Returns the last name of a YAML file that a text quotes.
fn file_name(text: &str) -> &str {
    let quoted = text.split('`').skip(1).step_by(2);
    let names = quoted.filter(|name| Path::new(name).extension().is_some_and(|it| it == "yaml"));
    names.last().expect("the text before a file names it")
}

/// Returns the commands of a block, which begin with a prompt and may end with a backslash.
fn typed(block: &[&str]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = block.iter().peekable();
    while let Some(line) = lines.next() {
        let prompted = line.strip_prefix("$ ").expect("a command comes first");
        let mut command = prompted.to_owned();
        while command.ends_with('\\') {
            command.push('\n');
            command.push_str(lines.next().expect("the command goes on"));
        }
        let mut shown = String::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
            shown.push_str(line);
            shown.push('\n');
        }
        steps.push(Step::Type { command, shown });
    }
    steps
}

/// Returns a text without what differs from run to run: ages, addresses, and the width of columns.
pub fn shape(text: &str) -> String {
    static AGES: OnceLock<Regex> = OnceLock::new();
    static ADDRESSES: OnceLock<Regex> = OnceLock::new();
    let ages = AGES.get_or_init(|| Regex::new(r"^(\d+[smhd])+$").expect("a pattern"));
    let addresses = ADDRESSES.get_or_init(|| Regex::new(r"^\d+(\.\d+){3}$").expect("a pattern"));
    let word = |word| match word {
        age if ages.is_match(age) => "<age>",
        address if addresses.is_match(address) => "<address>",
        other => other,
    };
    let lines = text.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().map(word).collect();
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A shell that commands are typed into: what one sets, the next one sees.
#[derive(Debug)]
pub struct Shell {
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    script: std::path::PathBuf,
    errors: std::path::PathBuf,
    _bash: Child,
}

/// What a command printed to standard output, and how it ended.
#[derive(Debug)]
pub struct Typed {
    /// The standard output.
    pub printed: String,
    /// The exit code.
    pub code: String,
}

// === impl Shell ===

impl Shell {
    /// What follows the output of each command, before its exit code.
    const END: char = '\u{1e}';

    /// Starts a shell in a folder, which is its home, with programs of these folders before all others.
    pub fn start(folder: &Path, programs: &[&Path]) -> Self {
        let mut paths: Vec<_> = programs.iter().map(|path| path.to_path_buf()).collect();
        paths.extend(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        ));
        let errors = folder.join("typed.err");
        let log = std::fs::File::create(&errors).expect("the folder is writable");
        let mut bash = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::join_paths(paths).expect("no colons"))
            .env("HOME", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("bash can be started");
        Self {
            stdin: bash.stdin.take().expect("stdin is piped"),
            stdout: BufReader::new(bash.stdout.take().expect("stdout is piped")).lines(),
            script: folder.join("typed.sh"),
            errors,
            _bash: bash,
        }
    }

    /// Types a command and waits for its end.
    pub async fn run(&mut self, command: &str) -> Typed {
        std::fs::write(&self.script, command).expect("the folder is writable");
        let end = Self::END;
        let line = format!(". ./typed.sh </dev/null; printf '{end}%s\\n' $?\n");
        let written = self.stdin.write_all(line.as_bytes()).await;
        written.expect("the shell reads");
        let mut printed = String::new();
        loop {
            let line = self.stdout.next_line().await.expect("the shell prints");
            let line = line.expect("the shell goes on");
            if let Some((rest, code)) = line.split_once(end) {
                printed.push_str(rest);
                let code = code.to_owned();
                return Typed { printed, code };
            }
            printed.push_str(&line);
            printed.push('\n');
        }
    }

    /// Types a command, which must succeed, and returns what it printed.
    pub async fn must(&mut self, command: &str) -> String {
        let typed = self.run(command).await;
        assert_eq!(typed.code, "0", "{command}: {typed:?}\n{}", self.errors());
        typed.printed
    }

    /// Returns what all commands printed to standard error.
    pub fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_files_scripts_and_commands() {
        let page = "# Page\n\nFirst `a.txt`, then save `b.yaml`:\n\n```yaml\na: 1\n```\n\n```sh\ntrue\nfalse\n```\n\
            Type:\n\n```console\n$ one \\\n    two\nshown  5s\n$ three\n```\n";
        let command = |command: &str, shown: &str| Step::Type {
            command: command.to_owned(),
            shown: shown.to_owned(),
        };
        let want = [
            Step::Save {
                name: "b.yaml".to_owned(),
                content: "a: 1\n".to_owned(),
            },
            Step::Script("true\nfalse".to_owned()),
            command("one \\\n    two", "shown  5s\n"),
            command("three", ""),
        ];
        assert_eq!(steps(page), want);
    }

    #[test]
    fn commands_are_found_in_blocks_and_lists_without_what_they_print() {
        let page = "```yaml\na: 1\n```\n1. Do:\n   ```console\n   $ one \\\n     two\n   shown\n   $ three   # why\n   ```\n\
            ```sh\nfour\nfive\n```\n```sh\nsix <<'END'\n{}\nEND\n```\n";
        let want = [
            "one \\\ntwo",
            "three",
            "four",
            "five",
            "six <<'END'\n{}\nEND",
        ];
        assert_eq!(commands(page), want);
    }

    #[test]
    fn ages_and_addresses_have_no_shape() {
        let one = "NAME    AGE\na       1m5s   10.0.0.1  v1.36.3\n";
        let other = "NAME  AGE\na  3s  10.1.2.3  v1.36.3\n";
        assert_eq!(shape(one), shape(other));
        assert_ne!(shape(one), shape(&one.replace("v1.36.3", "v1.36.4")));
    }
}
