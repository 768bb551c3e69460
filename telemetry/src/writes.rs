//! Which span wrote which object last.

use std::collections::VecDeque;
use std::time::Duration;

use opentelemetry::trace::SpanContext;
use tokio::time::Instant;

/// How many writes are kept: a syncer is less than a second behind.
const COUNT_MAX: usize = 512;
/// How long what is done about an object belongs to the trace of its last write: long enough for an instance whose children
/// become ready, and no longer, or the trace of an object that nobody changes would never end.
const LIFETIME: Duration = Duration::from_mins(1);

/// The last sampled writes, oldest first, one for each object.
pub(crate) struct Writes(VecDeque<Write>);

struct Write {
    uid: String,
    span: SpanContext,
    at: Instant,
}

impl Writes {
    pub(crate) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Notes the span of a write, or that none was sampled.
    pub(crate) fn note(&mut self, uid: &str, sampled: Option<&SpanContext>, at: Instant) {
        self.0.retain(|it| it.uid != uid);
        let Some(span) = sampled else { return };
        if self.0.len() >= COUNT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Write {
            uid: uid.to_owned(),
            span: span.clone(),
            at,
        });
    }

    pub(crate) fn find(&self, uid: &str, now: Instant) -> Option<SpanContext> {
        let newest = self.0.iter().rev();
        let mut kept = newest.take_while(|it| now.duration_since(it.at) < LIFETIME);
        let write = kept.find(|it| it.uid == uid)?;
        Some(write.span.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_followed_for_a_while_and_the_oldest_are_forgotten() {
        let (mut writes, at) = (Writes::new(), Instant::now());
        let span = Some(&SpanContext::NONE);
        for uid in 0..=COUNT_MAX {
            writes.note(&uid.to_string(), span, at);
        }
        assert!(writes.find("0", at).is_none(), "the oldest is forgotten");
        assert!(writes.find("1", at).is_some(), "kept");
        assert!(writes.find("1", at + LIFETIME).is_none(), "its trace ended");
        writes.note("1", span, at + LIFETIME);
        assert!(writes.find("1", at + LIFETIME).is_some(), "written again");
        writes.note("1", None, at + LIFETIME);
        assert!(writes.find("1", at + LIFETIME).is_none(), "not sampled");
    }
}
