//! S31: random requests are answered as by a real kube-apiserver.
//!
//! One stream of requests, drawn by a seed, goes to an embedded cluster and to a kube-apiserver. Each answer is compared: status, type,
//! warnings and body, with `managedFields` and every message. How objects of
//! built-in kinds are judged is another trial's (S34): the kinds are custom ones, with a schema that has most of what a schema can have, and
//! a few built-in ones. After a difference both forget the collection, so that one fault is told once. What both tell those who watch
//! meanwhile is compared at the end ([`watches`]).

use std::collections::HashMap;

use serde_json::{Value, json};
use storage_conformance::Trial;
use wheelhouse_tests::{
    Kubectl, Spoke,
    support::{Answer, CRDS, Fixture, MERGE_PATCH, User},
};

use self::compare::{is_agreed, shown, whole};
use self::draw::{Draw, Request, UID, VERSION};
use self::watches::{Begin, Pair};
use super::mask::difference;

mod compare;
mod definitions;
mod draw;
mod watches;

const S31: Trial = Trial("S31");

const GADGETS: &str = include_str!("../../fixtures/gadgets.yaml");
const REQUESTS: usize = 600;
/// How many watches of each kind begin at a moment.
const WATCHES: usize = 4;
/// Differences that are told before a run gives up.
const FINDINGS_MAX: usize = 40;

/// Of the definitions that are drawn for a seed.
const DEFINITIONS: usize = 300;

/// One of the two, with what it has answered of each object.
struct Side {
    user: User,
    base: &'static str,
    known: HashMap<String, (String, String)>,
}

/// Both.
struct Sides {
    ours: Side,
    peer: Side,
}

/// What was seen of the requests of a seed.
#[derive(Default)]
struct Tally {
    accepted: usize,
    findings: Vec<String>,
    /// What was seen of a kube-apiserver that failed over a request.
    panics: Vec<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn s31_random_requests_are_answered_as_by_a_real_kube_apiserver() {
    let (fixture, spoke) = tokio::join!(Fixture::start(&[]), Spoke::start("peer"));
    fixture.embed("a").await;
    let text = std::fs::read_to_string(spoke.kubeconfig()).expect("the spoke has a kubeconfig");
    let mut sides = Sides {
        ours: Side::new(fixture.admin().await, "/clusters/a"),
        peer: Side::new(User::connect("admin", &text).await, ""),
    };
    for kubectl in [spoke.kubectl(), fixture.hub.at("a")] {
        define(&kubectl).await;
    }
    for side in [&sides.ours, &sides.peer] {
        for collection in draw::collections() {
            let path = format!("{}{collection}", side.base);
            side.user.until_status(&path, 200).await;
        }
    }
    let gadgets = GADGETS.split("\n---\n").next().unwrap_or_default();
    let gadgets: Value = serde_saphyr::from_str(gadgets).expect("a definition");
    sides.definitions_are_judged_alike(gadgets.clone()).await;
    for seed in Trial::seeds(1) {
        let mut draw = Draw::new(seed);
        println!("{}", sides.requests(&mut draw, seed).await);
        let mut definitions = Tally::default();
        for number in 0..DEFINITIONS {
            let request = draw.definition(&gadgets);
            sides.ask(number, &request, &mut definitions).await;
        }
        println!("{}", definitions.told("definitions", DEFINITIONS, seed));
    }
}

async fn define(kubectl: &Kubectl) {
    kubectl.apply(GADGETS).await;
    for name in ["gadgets", "orbs"] {
        let definition = format!("crd/{name}.random.example.com");
        kubectl
            .must(&[
                "wait",
                "--for=condition=Established",
                &definition,
                "--timeout=30s",
            ])
            .await;
    }
}

// === impl Tally ===

impl Tally {
    /// Compares what was watched, and returns how many events there were.
    async fn watched(&mut self, watching: Vec<Pair>) -> usize {
        let (pairs, mut count) = (watching.len(), 0);
        for pair in watching {
            let (events, found) = pair.compared().await;
            count += events;
            self.findings.extend(found);
        }
        // What differs is told first.
        let is_seen = !self.findings.is_empty() || count > 5 * pairs;
        assert!(is_seen, "{pairs} watches saw {count} events");
        count
    }

    /// Fails if there were differences, or if nearly all requests had the same end; tells what was seen.
    fn told(&self, what: &str, asked: usize, seed: u64) -> String {
        let Self {
            accepted,
            findings,
            panics,
        } = self;
        assert!(
            findings.is_empty(),
            "seed {seed}:\n{}\nrepeat it: {}",
            findings.join("\n"),
            S31.repeat(seed)
        );
        assert!(
            (asked / 10..asked * 4 / 5).contains(accepted),
            "both are frequent, and {accepted} of {asked} {what} were accepted"
        );
        let panics = panics.len();
        format!(
            "S31: seed {seed}: {asked} {what}, {accepted} accepted, {panics} panics of kube-apiserver"
        )
    }
}

// === impl Sides ===

impl Sides {
    /// Sends the requests of a seed to both, while some watch, and tells what was seen.
    async fn requests(&mut self, draw: &mut Draw, seed: u64) -> String {
        let mut watches = Draw::new(seed);
        let first = self.moment().await;
        let mut watching = self
            .watch(&mut watches, WATCHES, Begin::After(&first))
            .await;
        let mut tally = Tally::default();
        for number in 0..REQUESTS {
            let request = draw.request();
            if self.ask(number, &request, &mut tally).await {
                self.forget(&collection(&request)).await;
            }
            if number == REQUESTS / 2 {
                // A list that is as fresh as can be: no state that is told afterwards is older.
                self.moment().await;
                watching.extend(self.watch(&mut watches, WATCHES, Begin::State).await);
            }
        }
        self.end().await;
        watching.extend(
            self.watch(&mut watches, WATCHES, Begin::After(&first))
                .await,
        );
        let events = tally.watched(watching).await;
        self.clear().await;
        let told = tally.told("requests", REQUESTS, seed);
        format!("{told}, {events} events")
    }

    /// Sends a request to both, and returns whether they answered it otherwise.
    async fn ask(&mut self, number: usize, request: &Request, tally: &mut Tally) -> bool {
        if tally.findings.len() == FINDINGS_MAX {
            return false;
        }
        let (left, right) = tokio::join!(self.ours.send(request), self.peer.send(request));
        let mut found = Vec::new();
        match (left, right) {
            (Ok((left, left_moved)), Ok((right, right_moved))) => {
                tally.accepted += usize::from(right.status < 300);
                if !is_agreed(request, &left, &right) {
                    let (mut a, mut b) = (shown(&left), shown(&right));
                    // A write to a scale that changes no count makes a version in a kube-apiserver (see `compare::owners`).
                    if !request.rest.starts_with("/scale") {
                        a["has another version"] = json!(left_moved);
                        b["has another version"] = json!(right_moved);
                    }
                    difference("", (&a, &b), ("the hub", "kube-apiserver"), &mut found);
                }
            }
            (Err(error), _) => found.push(format!("the hub: {error}")),
            // Some schemas make a kube-apiserver panic.
            (Ok((left, _)), Err(error)) if left.status != 422 => {
                found.push(format!("the hub: {}, kube-apiserver: {error}", left.body));
            }
            (Ok(_), Err(error)) => tally.panics.push(error),
        }
        if found.is_empty() {
            return false;
        }
        let found = found.join("\n  ");
        tally
            .findings
            .push(format!("{number}: {}\n  {found}", said(request)));
        true
    }

    /// Deletes all objects of a collection in both.
    async fn forget(&self, collection: &str) {
        tokio::join!(self.ours.forget(collection), self.peer.forget(collection));
    }

    /// A kube-apiserver judges what all versions have in common apart, and asks for a schema there where selectable fields are.
    async fn definitions_are_judged_alike(&self, mut definition: Value) {
        definition["metadata"]["name"] = json!("gizmos.random.example.com");
        definition["spec"]["names"] = json!({"kind": "Gizmo", "plural": "gizmos"});
        let second = &mut definition["spec"]["versions"][1];
        let (mut fewer_fields, mut other_schema) = (second.clone(), second.take());
        fewer_fields["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
        other_schema["schema"]["openAPIV3Schema"]["description"] = json!("another");
        for (version, place) in [
            (fewer_fields, "spec.versions[0].selectableFields: "),
            (other_schema, "spec.selectableFields: "),
        ] {
            definition["spec"]["versions"][1] = version;
            let path = format!("{CRDS}?dryRun=All");
            let below = format!("{}{path}", self.ours.base);
            let (left, right) = tokio::join!(
                self.ours.user.post(&below, &definition),
                self.peer.user.post(&path, &definition)
            );
            let message = right.message();
            assert!(message.contains(place), "{place}{message}");
            assert_eq!(left.message(), message, "{place}");
        }
    }
}

// === impl Side ===

impl Side {
    fn new(user: User, base: &'static str) -> Self {
        Self {
            user,
            base,
            known: HashMap::new(),
        }
    }

    /// Sends a request, and returns the answer and whether the object has another version than before; a server that has failed over it
    /// answers nothing.
    async fn send(&mut self, request: &Request) -> Result<(Answer, bool), String> {
        // An object is the same in each version of its kind.
        let mut subject = request.subject.replace("/v1beta1/", "/v1/");
        let (uid, version) = match self.known.get(&subject) {
            Some((uid, version)) => (uid.as_str(), version.as_str()),
            None => ("none", "1"),
        };
        let body = request.body.replace(UID, uid).replace(VERSION, version);
        let path = format!("{}{}{}", self.base, request.subject, request.rest);
        let headers: Vec<(&str, &str)> = request
            .headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let sent = self.user.try_send(request.method, &path, &headers, body);
        let answer = sent.await?;
        let body = whole(&answer);
        let metadata = &body["metadata"];
        let mut is_moved = false;
        if let (Some(uid), Some(version)) = (
            metadata["uid"].as_str(),
            metadata["resourceVersion"].as_str(),
        ) {
            if request.method == "POST" {
                subject.push('/');
                subject.push_str(metadata["name"].as_str().unwrap_or_default());
            }
            let seen = (uid.to_owned(), version.to_owned());
            let before = self.known.insert(subject, seen.clone());
            is_moved = before != Some(seen);
        }
        Ok((answer, is_moved))
    }

    /// Deletes all objects of a collection, whatever holds them.
    async fn forget(&self, collection: &str) {
        let path = format!("{}{collection}", self.base);
        let listed = self.user.get(&path).await.must(200);
        for item in listed["items"].as_array().into_iter().flatten() {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{path}/{name}");
            let free = json!({"metadata": {"finalizers": null}});
            self.user.patch(&path, MERGE_PATCH, &free).await;
            self.user.delete(&path).await;
        }
    }
}

fn said(request: &Request) -> String {
    let Request {
        method,
        subject,
        rest,
        headers,
        body,
    } = request;
    format!("{method} {subject}{rest} {headers:?} {body}")
}

/// Returns the collection that a request is about.
fn collection(request: &Request) -> String {
    let path = &request.subject;
    // An object's path has one segment more than its collection's.
    match path.rsplit_once('/') {
        Some((collection, name)) if draw::is_name(name) => collection.to_owned(),
        _ => path.clone(),
    }
}
