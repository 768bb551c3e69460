//! What was allowed once, to be judged again while it goes on.
//!
//! Invariant: the same gates in the same order as at the beginning ([`Authorizer::admit`]); the sender stays the one who was let in, whom it
//! acts as is made anew, by the rules of now.

use std::sync::Arc;

use http::request::Parts;

use super::{
    Attributes, Authorized, Authorizer, Decision, Judge, SpokeAnswer, Verdict,
    delegated::RENEWED_AGE, impersonate, refuse_unless_allowed,
};
use crate::{
    refusal::Refusal,
    request::{RequestInfo, UserInfo},
};

/// A request that was allowed and goes on.
#[derive(Debug)]
pub(crate) struct Held {
    /// Who really asks.
    sender: Arc<UserInfo>,
    wanted: Option<impersonate::Wanted>,
    /// Whom it acts as.
    user: Arc<UserInfo>,
    info: RequestInfo,
    judge: HeldJudge,
}

/// Who judges it again: [`Judge`], without what was true at the beginning alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeldJudge {
    Rules,
    Spoke,
    FirstGate,
    /// The answer itself: a watch over all clusters asks both gates of each of them again and again.
    Answer,
}

impl From<Judge<'_>> for HeldJudge {
    fn from(judge: Judge<'_>) -> Self {
        match judge {
            Judge::Rules => Self::Rules,
            Judge::Spoke => Self::Spoke,
            Judge::FirstGate => Self::FirstGate,
            Judge::Each { .. } => Self::Answer,
        }
    }
}

/// What another look at it comes to.
#[derive(Debug)]
pub(crate) enum Reconsidered {
    /// It may go on.
    Holds,
    /// It may not.
    Lost(Box<Refusal>),
    /// All that stands here lets it go on; the rest is for the spoke to say.
    SpokeDecides,
    /// The rules that stand here do not let it go on; the host may.
    HostDecides,
}

/// What the rules that stand here come to.
enum Here {
    Holds,
    SpokeDecides,
    HostDecides,
}

// === impl Held ===

impl Held {
    /// Takes down what is asked again.
    pub(crate) fn of(request: &Authorized<Parts>, judge: Judge<'_>) -> Self {
        let context = request.context();
        let wanted = context.impersonator.as_ref().and_then(|_sender| {
            // They were read before, and let through.
            impersonate::read_headers(&request.request().headers).ok()?
        });
        Self {
            sender: Arc::clone(context.impersonator.as_ref().unwrap_or(&context.user)),
            wanted,
            user: Arc::clone(&context.user),
            info: request.info().clone(),
            judge: judge.into(),
        }
    }

    /// What the path says.
    pub(crate) fn info(&self) -> &RequestInfo {
        &self.info
    }

    /// The question; the same text is the same question.
    pub(crate) fn question(&self) -> String {
        format!("{:?}", self.attributes())
    }

    fn attributes(&self) -> Attributes<'_> {
        Attributes::of(&self.user, &self.info)
    }
}

impl Authorizer {
    /// Judges again what goes on, by rules in memory alone.
    pub(crate) fn reconsider(&self, held: &Held) -> Reconsidered {
        match self.reconsider_here(held) {
            Ok(Here::Holds) => Reconsidered::Holds,
            Ok(Here::SpokeDecides) => Reconsidered::SpokeDecides,
            Ok(Here::HostDecides) => Reconsidered::HostDecides,
            Err(refusal) => Reconsidered::Lost(Box::new(refusal)),
        }
    }

    fn reconsider_here(&self, held: &Held) -> Result<Here, Refusal> {
        let cluster = &held.info.cluster;
        if let Some(wanted) = &held.wanted {
            impersonate::check(self, &held.sender, cluster, wanted)?;
        }
        if held.judge == HeldJudge::Answer {
            return Ok(Here::Holds);
        }
        let asked = held.attributes();
        if let Err(refusal) = self.enter(asked.user, cluster) {
            return if self.may_be_let_in_by_host(asked.user, cluster) {
                Ok(Here::HostDecides)
            } else {
                Err(refusal)
            };
        }
        match held.judge {
            HeldJudge::FirstGate | HeldJudge::Answer => Ok(Here::Holds),
            HeldJudge::Spoke => Ok(Here::SpokeDecides),
            HeldJudge::Rules => match self.judge_here(&asked) {
                None => Ok(Here::SpokeDecides),
                Some(verdict)
                    if !verdict.allowed && !verdict.denied && self.is_for_host(&asked) =>
                {
                    Ok(Here::HostDecides)
                }
                Some(verdict) => refuse_unless_allowed(&asked, &verdict).map(|()| Here::Holds),
            },
        }
    }

    /// Asks the host about what goes on, and the spoke where that judges too. A host that does not answer sends nobody away.
    ///
    /// # Errors
    /// 403 where it says no.
    pub(crate) async fn reconsider_at_host(&self, held: &Held) -> Result<(), Refusal> {
        let asked = held.attributes();
        let is_silence = |refusal: &Refusal| refusal.status().is_some_and(|it| it.code == 503);
        let entered = self.enter_or_ask(asked.user, asked.cluster, RENEWED_AGE);
        match entered.await {
            Err(refusal) if is_silence(&refusal) => return Ok(()),
            entered => entered?,
        }
        match held.judge {
            HeldJudge::FirstGate | HeldJudge::Answer => return Ok(()),
            HeldJudge::Spoke => return self.reconsider_at_spoke(held).await,
            HeldJudge::Rules => {}
        }
        let Some(verdict) = self.judge_here(&asked) else {
            return self.reconsider_at_spoke(held).await;
        };
        let verdict = self.or_ask(&asked, verdict, RENEWED_AGE).await;
        if verdict.undecided {
            return Ok(());
        }
        refuse_unless_allowed(&asked, &verdict)
    }

    /// Asks the spoke about what goes on. A spoke that does not answer sends nobody away; where there is no way to it any more, what was relayed
    /// is at its end.
    ///
    /// # Errors
    /// 403 where the spoke says no.
    pub(crate) async fn reconsider_at_spoke(&self, held: &Held) -> Result<(), Refusal> {
        let asked = held.attributes();
        match self.ask_spoke(&asked).await {
            SpokeAnswer::Decided(Decision::Allow) | SpokeAnswer::Unreached { .. } => Ok(()),
            SpokeAnswer::NotConnected { .. } if held.judge != HeldJudge::Spoke => Ok(()),
            answer => refuse_unless_allowed(&asked, &Verdict::from_spoke(answer)),
        }
    }
}
