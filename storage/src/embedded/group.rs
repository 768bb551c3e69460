//! Judges and numbers a group of batches, in the order in which they came. Pure.
//!
//! # Invariants
//! - A batch is judged against everything before it: the index, and the earlier batches of its own
//!   group. Within a batch every write is judged before any takes effect.
//! - Accepted batches get consecutive revisions; a refused one uses none.
//! - Refusals are answered with the group, not before it: their reason may lie in a batch of the
//!   same group, which is not durable yet.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::answer::Responder;
use crate::entry::{Draft, Entry, Op, Seal};
use crate::error::Error;
use crate::key::Key;
use crate::revision::Revision;
use crate::store::{Committed, Expect};

/// A batch on its way to the commit thread.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) proposals: Vec<Proposal>,
    pub(crate) responder: Responder<Committed>,
}

/// A write, laid out.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) draft: Draft,
    pub(crate) expect: Expect,
    /// `None` for a deletion, which keeps the tag of the state before.
    pub(crate) tag: Option<u64>,
    /// Whether it only expects.
    pub(crate) is_kept: bool,
}

/// A group that was judged.
#[derive(Debug)]
pub(crate) struct Group {
    /// What is to become durable, in order.
    pub(crate) entries: Vec<Entry>,
    answers: Vec<(Responder<Committed>, Outcome)>,
}

#[derive(Debug)]
enum Outcome {
    /// The places of its entries in the group.
    Accepted(Revision, Range<usize>),
    Refused(Error),
}

/// What the group has done to a key so far, found by the key.
#[derive(Debug)]
struct Latest(Entry);

// === impl Submission ===

impl Submission {
    /// The size of its records.
    pub(crate) fn bytes(&self) -> usize {
        self.proposals
            .iter()
            .map(|proposal| proposal.draft.len())
            .sum()
    }
}

// === impl Group ===

impl Group {
    /// Judges batches, and numbers those that are accepted from behind `last`.
    pub(crate) fn judge(
        submissions: Vec<Submission>,
        last: Revision,
        current: impl Fn(&[u8]) -> Option<Entry>,
    ) -> Self {
        // The last batch is followed by nobody who could look at its effects.
        let mut followers = submissions.len();
        let mut latest = HashSet::<Latest>::new();
        let mut revision = last;
        let mut entries = Vec::with_capacity(submissions.len());
        let mut answers = Vec::with_capacity(submissions.len());
        for Submission {
            proposals,
            responder,
        } in submissions
        {
            followers = followers.saturating_sub(1);
            let state = |key: &[u8]| match latest.get(key) {
                Some(Latest(entry)) => Some(entry.clone()).filter(|entry| !entry.is_deletion()),
                None => current(key),
            };
            match judge_batch(proposals, revision.next(), state) {
                Ok(batch) => {
                    revision = revision.next();
                    let start = entries.len();
                    if followers > 0 {
                        for entry in &batch {
                            latest.replace(Latest(entry.clone()));
                        }
                    }
                    entries.extend(batch);
                    answers.push((responder, Outcome::Accepted(revision, start..entries.len())));
                }
                Err(error) => answers.push((responder, Outcome::Refused(error))),
            }
        }
        Self { entries, answers }
    }

    /// Answers everybody, now that the group is durable and published.
    pub(crate) fn answer(self) {
        for (responder, outcome) in self.answers {
            responder.send(match outcome {
                Outcome::Accepted(revision, places) => Ok(Committed {
                    revision,
                    entries: self.entries.get(places).unwrap_or_default().to_vec(),
                }),
                Outcome::Refused(error) => Err(error),
            });
        }
    }

    /// Answers everybody that the group could not be made durable.
    pub(crate) fn fail(self, error: &Error) {
        for (responder, _) in self.answers {
            responder.send(Err(error.clone()));
        }
    }
}

/// Judges all writes of a batch, then seals them.
fn judge_batch(
    proposals: Vec<Proposal>,
    revision: Revision,
    current: impl Fn(&[u8]) -> Option<Entry>,
) -> Result<Vec<Entry>, Error> {
    let mut judged = proposals
        .into_iter()
        .map(|proposal| {
            let state = current(proposal.draft.key());
            judge(&proposal, state.as_ref())?;
            Ok((proposal, state))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    judged.retain(|(proposal, _)| !proposal.is_kept);
    let count = u32::try_from(judged.len()).expect("a batch is bounded when it is proposed");
    let sealed = judged
        .into_iter()
        .zip(0_u32..)
        .map(|((proposal, state), index)| {
            let created = state.as_ref().map_or(revision, Entry::created);
            let tag = proposal
                .tag
                .or(state.as_ref().map(Entry::tag))
                .unwrap_or_default();
            proposal.draft.seal(Seal {
                revision,
                created,
                tag,
                index,
                count,
            })
        });
    Ok(sealed.collect())
}

fn judge(proposal: &Proposal, current: Option<&Entry>) -> Result<(), Error> {
    let key = || Key::copy_of(proposal.draft.key());
    let conflict = || Error::Conflict {
        key: key(),
        current: current.cloned(),
    };
    match (proposal.expect, current) {
        (Expect::Absent, Some(_)) => Err(conflict()),
        (Expect::Revision(_), None) => Err(Error::NotFound { key: key() }),
        (Expect::Revision(wanted), Some(entry)) if entry.modified() != wanted => Err(conflict()),
        (Expect::Any, None) if proposal.draft.op() == Op::Delete => {
            Err(Error::NotFound { key: key() })
        }
        (Expect::Absent | Expect::Revision(_) | Expect::Any, _) => Ok(()),
    }
}

// === impl Latest ===

impl Borrow<[u8]> for Latest {
    fn borrow(&self) -> &[u8] {
        self.0.key()
    }
}

impl Hash for Latest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key().hash(state);
    }
}

impl PartialEq for Latest {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for Latest {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Answer;

    fn submission(key: &str, op: Op, expect: Expect) -> (Submission, Answer<Committed>) {
        let (responder, answer) = Answer::pending();
        let draft = Draft::new(op, key.as_bytes(), b"", None);
        let tag = (op == Op::Put).then_some(5);
        (
            Submission {
                proposals: vec![Proposal {
                    draft,
                    expect,
                    tag,
                    is_kept: false,
                }],
                responder,
            },
            answer,
        )
    }

    fn outcomes(steps: &[(Op, Expect)]) -> Vec<Result<u64, String>> {
        let (submissions, answers): (Vec<_>, Vec<_>) = steps
            .iter()
            .map(|(op, expect)| submission("k", *op, *expect))
            .unzip();
        Group::judge(submissions, Revision(100), |_| None).answer();
        let text = |error: Error| match error {
            Error::NotFound { .. } => "not found".to_owned(),
            Error::Conflict { current, .. } => {
                format!(
                    "conflict with {}",
                    current.map_or(0, |entry| entry.modified().0)
                )
            }
            other => other.to_string(),
        };
        answers
            .into_iter()
            .map(|a| a.wait().map(|done| done.revision.0).map_err(text))
            .collect()
    }

    #[test]
    fn each_batch_is_judged_after_the_ones_before_it() {
        use Expect::{Absent, Any, Revision as At};
        let conflict = |revision| Err(format!("conflict with {revision}"));
        let absent = || Err("not found".to_owned());
        for (name, steps, want) in [
            (
                "create twice",
                vec![(Op::Put, Absent), (Op::Put, Absent)],
                vec![Ok(101), conflict(101)],
            ),
            (
                "update what the group made",
                vec![
                    (Op::Put, Any),
                    (Op::Put, At(Revision(101))),
                    (Op::Put, At(Revision(101))),
                ],
                vec![Ok(101), Ok(102), conflict(102)],
            ),
            (
                "delete, then expect it",
                vec![
                    (Op::Put, Any),
                    (Op::Delete, Any),
                    (Op::Delete, Any),
                    (Op::Put, Absent),
                ],
                vec![Ok(101), Ok(102), absent(), Ok(103)],
            ),
            (
                "update what is absent",
                vec![(Op::Put, At(Revision(9)))],
                vec![absent()],
            ),
        ] {
            assert_eq!(outcomes(&steps), want, "{name}");
        }
    }

    #[test]
    fn a_batch_with_one_refused_write_does_nothing() {
        let (mut batch, answer) = submission("a", Op::Put, Expect::Any);
        let (refused, _) = submission("b", Op::Delete, Expect::Any);
        batch.proposals.extend(refused.proposals);
        let group = Group::judge(vec![batch], Revision(1), |_| None);
        assert!(group.entries.is_empty(), "{:?}", group.entries);
        group.answer();
        assert!(matches!(answer.wait(), Err(Error::NotFound { key }) if &*key == b"b"));
    }

    #[test]
    fn what_is_sealed_remembers_its_creation_and_a_deletion_its_tag() {
        let (put, _) = submission("k", Op::Put, Expect::Any);
        let (again, _) = submission("k", Op::Put, Expect::Any);
        let (delete, _) = submission("k", Op::Delete, Expect::Any);
        let group = Group::judge(vec![put, again, delete], Revision(1), |_| None);
        let facts = |entry: &Entry| (entry.created().0, entry.modified().0, entry.tag());
        assert_eq!(
            group.entries.iter().map(facts).collect::<Vec<_>>(),
            [(2, 2, 5), (2, 3, 5), (2, 4, 5)]
        );
    }
}
