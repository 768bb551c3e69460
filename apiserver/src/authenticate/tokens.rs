//! The static token file: CSV lines of `token,user,uid[,"group1,group2"]`.
//!
//! Invariant: tokens are kept and looked up by their SHA-256, so neither memory nor timing gives one away.
//!
//! Source: `apiserver/pkg/authentication/token/tokenfile`.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::{collections::HashMap, fmt, path::Path, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};

use crate::request::UserInfo;

/// The tokens that a file names and whose they are.
#[derive(Default)]
pub struct TokenFile {
    users: HashMap<[u8; 32], Arc<UserInfo>>,
}

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It cannot be read.
    #[error("token file cannot be read")]
    Read(#[source] std::io::Error),
    /// A line has fewer than three columns, or a quote that does not end.
    #[error("line {line} of the token file must be token,user,uid[,\"group1,group2\"]")]
    Line {
        /// From 1.
        line: usize,
    },
}

// === impl TokenFile ===

impl TokenFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`TokenFileError::Read`] and [`TokenFileError::Line`].
    pub fn read(path: &Path) -> Result<Self, TokenFileError> {
        Self::parse(&std::fs::read_to_string(path).map_err(TokenFileError::Read)?)
    }

    /// Reads the text of such a file. Empty lines, lines that begin with `#` and lines without a token are left out; of two lines with the
    /// same token the last counts.
    ///
    /// # Errors
    /// [`TokenFileError::Line`].
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut users = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let fields = fields(line).filter(|fields| fields.len() >= 3);
            let Some(fields) = fields else {
                return Err(TokenFileError::Line {
                    line: index.saturating_add(1),
                });
            };
            let mut fields = fields.into_iter();
            let mut next = || fields.next().unwrap_or_default();
            let (token, username, uid, groups) = (next(), next(), next(), next());
            if token.is_empty() {
                continue;
            }
            let groups = groups
                .split(',')
                .map(str::trim)
                .filter(|group| !group.is_empty());
            let mut user = UserInfo::authenticated(username, groups);
            user.uid = uid;
            users.insert(Sha256::digest(token.as_bytes()).into(), Arc::new(user));
        }
        Ok(Self { users })
    }

    /// Takes one more token.
    pub(crate) fn add(&mut self, token: &str, user: UserInfo) {
        let digest = Sha256::digest(token.as_bytes()).into();
        self.users.insert(digest, Arc::new(user));
    }

    /// Whether the line of this mark is there, and this user's.
    pub(super) fn has(&self, mark: &str, user: &UserInfo) -> bool {
        let mut lines = self.users.iter();
        lines.any(|(digest, known)| **known == *user && mark_of(digest) == mark)
    }

    /// The mark of the line of a token.
    pub(super) fn mark(token: &str) -> Arc<str> {
        mark_of(&Sha256::digest(token.as_bytes()).into()).into()
    }

    /// Whose token this is.
    pub(super) fn user(&self, token: &str) -> Option<Arc<UserInfo>> {
        if self.users.is_empty() {
            return None;
        }
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        self.users.get(&digest).map(Arc::clone)
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFile")
            .field("count", &self.users.len())
            .finish()
    }
}

/// What stands for a line where its token may not: nothing that a token could be looked up by.
fn mark_of(digest: &[u8; 32]) -> String {
    let mark = Sha256::new()
        .chain_update("line of the token file")
        .chain_update(digest);
    URL_SAFE_NO_PAD.encode(mark.finalize())
}

/// Splits a line of CSV; `None` for a quote that does not end.
fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut characters = line.chars().peekable();
    let mut quoted = false;
    while let Some(character) = characters.next() {
        match (character, quoted) {
            ('"', true) if characters.next_if_eq(&'"').is_some() => field.push('"'),
            ('"', true) => quoted = false,
            ('"', false) if field.trim().is_empty() => {
                field.clear();
                quoted = true;
            }
            (',', false) => fields.push(std::mem::take(&mut field)),
            (other, _) => field.push(other),
        }
    }
    fields.push(field);
    (!quoted).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_token_user_uid_and_groups() {
        let file = TokenFile::parse(
            "# comment\n\nt1,alice,1\nt2,bob,2,\"dev, ops\"\nt3,carol,3,admins\n,nobody,4\n",
        )
        .unwrap();
        for (token, want) in [
            ("t1", Some(("alice", "1", vec!["system:authenticated"]))),
            (
                "t2",
                Some(("bob", "2", vec!["dev", "ops", "system:authenticated"])),
            ),
            (
                "t3",
                Some(("carol", "3", vec!["admins", "system:authenticated"])),
            ),
            ("t4", None),
            ("", None),
        ] {
            let user = file.user(token);
            let got = user.as_ref().map(|user| {
                let groups = user.groups.iter().map(String::as_str).collect::<Vec<_>>();
                (user.username.as_str(), user.uid.as_str(), groups)
            });
            assert_eq!(got, want, "{token}");
        }
    }

    #[test]
    fn a_short_line_and_an_open_quote_are_refused() {
        for (text, line) in [("a,b\n", 1), ("t,u,1\nt,u,1,\"a,b\n", 2)] {
            match TokenFile::parse(text) {
                Err(TokenFileError::Line { line: got }) => assert_eq!(got, line, "{text}"),
                other => panic!("{text} gives {other:?}"),
            }
        }
    }

    #[test]
    fn a_line_is_known_by_its_mark_only_while_its_token_stands() {
        let before = TokenFile::parse("leaked,admin,1,ops\n").unwrap();
        let after = TokenFile::parse("fresh,admin,1,ops\n").unwrap();
        let (mark, user) = (TokenFile::mark("leaked"), before.user("leaked").unwrap());
        assert!(before.has(&mark, &user), "it stands");
        assert!(!after.has(&mark, &user), "the user has another token");
        let demoted = TokenFile::parse("leaked,admin,1\n").unwrap();
        assert!(!demoted.has(&mark, &user), "the user is another");
    }
}
