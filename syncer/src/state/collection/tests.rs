//! What a collection believes, case by case, and through any interleaving of answers, events and
//! lists.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use client::reflector::Event;
use proptest::{prelude::*, sample::Index};
use serde_json::json;

use super::*;

/// The names that there may be.
const NAMES: [&str; 3] = ["x", "y", "z"];

/// To whom an object may belong; the watch does not select what belongs to nobody.
const PARENTS: [&str; 3] = ["a", "b", ""];

/// Makes an object that belongs to an instance `parent`, if that is not empty.
pub(crate) fn object(name: &str, uid: &str, version: &str, parent: &str) -> Arc<RawObject> {
    let labels = if parent.is_empty() {
        json!({})
    } else {
        json!({
            "kro.run/instance-group": "kro.run",
            "kro.run/instance-kind": "App",
            "kro.run/instance-name": parent,
            "kro.run/instance-namespace": "default",
        })
    };
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": name, "namespace": "default", "uid": uid, "resourceVersion": version,
        "labels": labels,
    }});
    Arc::new(RawObject::from_value(&object).expect("an object"))
}

/// Something that one of us learns.
#[derive(Debug, Clone)]
pub(crate) enum Lesson {
    Watch(Event),
    Answer(Arc<RawObject>),
    Gone { name: String, uid: String },
}

/// What happens next, in the server or on the way from it.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    /// An object is made or changed; if by us, the answer is on its way.
    Write {
        name: usize,
        parent: usize,
        ours: bool,
    },
    /// An object is deleted; if by us, the answer is on its way.
    Delete { name: usize, ours: bool },
    /// The watch tells of the next change.
    Event,
    /// The watch begins anew with a list that is as old as the watch, as new as can be, or between.
    List(Index),
    /// One of the answers under way arrives.
    Arrival(Index),
}

/// A server with a history, a watch of it, and answers under way.
#[derive(Debug, Default)]
pub(crate) struct Server {
    /// The state of a name since a revision; revisions are counted from 1, so that versions get a
    /// second digit.
    history: Vec<(String, Option<Arc<RawObject>>)>,
    /// How much of the history the watch has told.
    told: usize,
    answers: Vec<Lesson>,
    is_watched: bool,
}

// === impl Server ===

impl Server {
    /// Returns what is selected as of a moment of the history, by name.
    pub(crate) fn selected(&self, moment: usize) -> BTreeMap<&str, &Arc<RawObject>> {
        let mut selected = BTreeMap::new();
        for (name, state) in &self.history[..moment] {
            match state.as_ref().filter(|it| !it.labels.is_empty()) {
                Some(object) => selected.insert(name.as_str(), object),
                None => selected.remove(name.as_str()),
            };
        }
        selected
    }

    pub(crate) fn now(&self) -> usize {
        self.history.len()
    }

    fn latest(&self, name: &str) -> Option<&Arc<RawObject>> {
        let mut states = self.history.iter().rev();
        states.find(|(known, _)| known == name)?.1.as_ref()
    }

    /// Lets something happen, and tells what is learnt by it.
    pub(crate) fn step(&mut self, happening: &Happening) -> Option<Lesson> {
        match happening {
            Happening::Write { name, parent, ours } => {
                let name = NAMES[*name];
                // What we write belongs to somebody.
                let parent = PARENTS[if *ours { *parent % 2 } else { *parent }];
                let version = (self.now() + 1).to_string();
                let uid = self
                    .latest(name)
                    .map_or_else(|| format!("uid-{version}"), |known| known.uid.clone());
                let written = object(name, &uid, &version, parent);
                self.history
                    .push((name.to_owned(), Some(Arc::clone(&written))));
                if *ours {
                    self.answers.push(Lesson::Answer(written));
                }
                None
            }
            Happening::Delete { name, ours } => {
                let name = NAMES[*name].to_owned();
                let uid = self.latest(&name)?.uid.clone();
                self.history.push((name.clone(), None));
                if *ours {
                    self.answers.push(Lesson::Gone { name, uid });
                }
                None
            }
            Happening::Event => self.event().map(Lesson::Watch),
            Happening::List(index) => {
                let moment = self.told + index.index(self.now() - self.told + 1);
                Some(Lesson::Watch(self.list(moment)))
            }
            Happening::Arrival(_) if self.answers.is_empty() => None,
            Happening::Arrival(index) => {
                let index = index.index(self.answers.len());
                Some(self.answers.swap_remove(index))
            }
        }
    }

    /// Lets everything that is under way arrive, answers and events as `order` mixes them.
    pub(crate) fn finish(&mut self, order: &[Index]) -> Vec<Lesson> {
        let mut order = order.iter().cycle();
        let mut learnt = Vec::new();
        loop {
            let index = order.next().expect("an order that is not empty");
            let event_next = index.index(2) == 0 || self.answers.is_empty();
            let happening = if event_next && !(self.is_watched && self.told == self.now()) {
                Happening::Event
            } else if self.answers.is_empty() {
                return learnt;
            } else {
                Happening::Arrival(*index)
            };
            learnt.extend(self.step(&happening));
        }
    }

    fn list(&mut self, moment: usize) -> Event {
        self.told = moment;
        self.is_watched = true;
        let selected = self.selected(moment);
        Event::Restarted {
            objects: selected.into_values().map(Arc::clone).collect(),
            resource_version: moment.to_string(),
            latest_as_of: (moment == self.now()).then(Instant::now),
        }
    }

    fn event(&mut self) -> Option<Event> {
        if !self.is_watched {
            return Some(self.list(self.told));
        }
        while self.told < self.now() {
            self.told += 1;
            let (name, _) = &self.history[self.told - 1];
            let before = self.selected(self.told - 1).get(name.as_str()).copied();
            let after = self.selected(self.told).get(name.as_str()).copied();
            match (before, after) {
                (_, Some(after)) => return Some(Event::Applied(Arc::clone(after))),
                (Some(before), None) => {
                    let version = self.told.to_string();
                    let last = object(&before.name, &before.uid, &version, "");
                    return Some(Event::Deleted(last));
                }
                (None, None) => {}
            }
        }
        None
    }
}

/// Anything that may happen in a row; the server has a history of nine by then, so that versions
/// get a second digit on the way.
pub(crate) fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let happening = prop_oneof![
        6 => (0..NAMES.len(), 0..PARENTS.len(), any::<bool>())
            .prop_map(|(name, parent, ours)| Happening::Write { name, parent, ours }),
        3 => (0..NAMES.len(), any::<bool>())
            .prop_map(|(name, ours)| Happening::Delete { name, ours }),
        6 => Just(Happening::Event),
        1 => any::<Index>().prop_map(Happening::List),
        5 => any::<Index>().prop_map(Happening::Arrival),
    ];
    prop::collection::vec(happening, 0..60)
}

fn learn(collection: &mut Collection<String>, lesson: Lesson) {
    match lesson {
        Lesson::Answer(object) => {
            collection.answered(object.name.clone(), object);
        }
        Lesson::Gone { name, uid } => {
            collection.gone(&name, &uid);
        }
        Lesson::Watch(Event::Restarted {
            objects,
            resource_version,
            latest_as_of,
        }) => {
            let named = |object: Arc<RawObject>| (object.name.clone(), object);
            let objects = objects.into_iter().map(named).collect();
            collection.listed(objects, &resource_version, latest_as_of);
        }
        Lesson::Watch(Event::Applied(object)) => {
            collection.applied(object.name.clone(), object);
        }
        Lesson::Watch(Event::Deleted(object)) => {
            collection.deleted(object.name.clone(), &object);
        }
        Lesson::Watch(Event::Interrupted(_) | Event::Resumed) => {}
    }
}

/// Names and versions of what is known.
fn shown(collection: &Collection<String>) -> BTreeMap<&str, &str> {
    let known = NAMES.into_iter().filter_map(|name| {
        let object = collection.get(&name.to_owned())?;
        Some((name, object.resource_version.as_str()))
    });
    known.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_interleaving_ends_in_the_servers_state(
        happenings in happenings(),
        order in prop::collection::vec(any::<Index>(), 1..8),
    ) {
        let mut server = Server::default();
        let mut collection = Collection::default();
        for happening in &happenings {
            if let Some(lesson) = server.step(happening) {
                learn(&mut collection, lesson);
            }
        }
        for lesson in server.finish(&order) {
            learn(&mut collection, lesson);
        }
        let selected = server.selected(server.now());
        let want: BTreeMap<&str, &str> = selected
            .into_iter()
            .map(|(name, object)| (name, object.resource_version.as_str()))
            .collect();
        prop_assert_eq!(shown(&collection), want);
        // What is gone is remembered only until the watch is past it.
        prop_assert_eq!(collection.entries.len(), shown(&collection).len());
    }

    #[test]
    fn what_is_shown_is_never_older_than_what_the_watch_has_told(happenings in happenings()) {
        let mut server = Server::default();
        let mut collection = Collection::default();
        for happening in &happenings {
            if let Some(lesson) = server.step(happening) {
                learn(&mut collection, lesson);
            }
            if !collection.is_synced() {
                continue;
            }
            for name in NAMES {
                let known = collection.get(&name.to_owned());
                let was_so = (server.told..=server.now()).any(|moment| {
                    let state = server.selected(moment).get(name).copied().cloned();
                    known.map(|it| &it.resource_version)
                        == state.as_ref().map(|it| &it.resource_version)
                });
                prop_assert!(was_so, "{}: {:?} of {:?}", name, known, server);
            }
        }
    }

    #[test]
    fn what_was_said_to_be_gone_is_not_shown_again(happenings in happenings()) {
        // What loses its labels and gets them back looks to the watch as if it had been deleted.
        let selected_always = happenings.into_iter().map(|happening| match happening {
            Happening::Write { name, parent, ours } => {
                Happening::Write { name, parent: parent % 2, ours }
            }
            other => other,
        });
        let mut server = Server::default();
        let mut collection = Collection::default();
        let mut gone = HashSet::new();
        for happening in selected_always {
            let Some(lesson) = server.step(&happening) else {
                continue;
            };
            if let Lesson::Gone { name, uid } = &lesson
                && collection.get(name).is_some_and(|known| known.uid == *uid)
            {
                gone.insert(uid.clone());
            }
            learn(&mut collection, lesson);
            for name in NAMES {
                let known = collection.get(&name.to_owned());
                prop_assert!(known.is_none_or(|known| !gone.contains(&known.uid)));
            }
        }
    }
}

#[test]
fn a_list_decides_about_what_was_learnt_before_it_and_not_later() {
    let listed = |version: &str| {
        Lesson::Watch(Event::Restarted {
            objects: Vec::new(),
            resource_version: version.to_owned(),
            latest_as_of: None,
        })
    };
    let made = || Lesson::Answer(object("x", "u", "10", "a"));
    let gone = || Lesson::Gone {
        name: "x".to_owned(),
        uid: "u".to_owned(),
    };
    // (what, what is learnt in this order, whether x is shown in the end)
    let cases = [
        (
            "answered before an older list",
            vec![made(), listed("9")],
            true,
        ),
        (
            "answered before a newer list",
            vec![made(), listed("11")],
            false,
        ),
        (
            "answered after a newer list",
            vec![listed("11"), made()],
            false,
        ),
        (
            "answered after an older list",
            vec![listed("9"), made()],
            true,
        ),
        (
            "answered again after it was said to be gone",
            vec![made(), gone(), listed("9"), made()],
            false,
        ),
        (
            "said to be gone after another one of its name was made",
            vec![Lesson::Answer(object("x", "v", "12", "a")), gone()],
            true,
        ),
    ];
    for (name, lessons, want) in cases {
        let mut collection = Collection::default();
        for lesson in lessons {
            learn(&mut collection, lesson);
        }
        assert_eq!(shown(&collection).contains_key("x"), want, "{name}");
    }
}

/// The story: a spoke was restored from a backup and, as Kubernetes asks for, its revision raised. A child that the hub had
/// changed since the backup was older again, and the hub went on believing in what it had written.
#[test]
fn a_server_that_was_set_back_is_believed_wherever_it_is_by_now() {
    let gone = |uid: &str| Lesson::Gone {
        name: "x".to_owned(),
        uid: uid.to_owned(),
    };
    // (what, what is learnt after x was seen at 20, what the list has of it, what is shown in the end, whether that is news)
    let cases = [
        (
            "changed since",
            None,
            object("x", "u", "5", "a"),
            Some("5"),
            true,
        ),
        (
            "made anew since",
            None,
            object("x", "t", "5", "a"),
            Some("5"),
            true,
        ),
        (
            "deleted since",
            Some(gone("u")),
            object("x", "u", "5", "a"),
            Some("5"),
            true,
        ),
        (
            "another state of the same version",
            None,
            object("x", "u", "20", "b"),
            Some("20"),
            true,
        ),
        (
            "the same",
            None,
            object("x", "u", "20", "a"),
            Some("20"),
            false,
        ),
        (
            "not set back, and listed before the deletion",
            Some(gone("u")),
            object("x", "u", "20", "a"),
            None,
            false,
        ),
    ];
    for (name, lesson, object, want, is_news) in cases {
        let mut collection = Collection::default();
        let seen = Lesson::Watch(Event::Applied(self::object("x", "u", "20", "a")));
        for lesson in [Some(seen), lesson].into_iter().flatten() {
            learn(&mut collection, lesson);
        }
        let changes = collection.listed(vec![("x".to_owned(), object)], "1000", None);
        assert_eq!(shown(&collection).get("x").copied(), want, "{name}");
        assert_eq!(!changes.is_empty(), is_news, "{name}");
    }
}

#[test]
fn a_server_that_was_set_back_is_believed_wholly() {
    for version in ["9", ""] {
        let mut collection = Collection::default();
        for lesson in [
            Lesson::Watch(Event::Applied(object("x", "u", "20", "a"))),
            Lesson::Answer(object("y", "u", "30", "a")),
        ] {
            learn(&mut collection, lesson);
        }
        let list = vec![("x".to_owned(), object("x", "u", "5", "b"))];
        let changes = collection.listed(list, version, None);
        assert_eq!(
            shown(&collection),
            BTreeMap::from([("x", "5")]),
            "at {version:?}"
        );
        let before = changes.iter().map(|change| change.before.is_some());
        assert_eq!(
            before.collect::<Vec<_>>(),
            [true, true],
            "both were known before"
        );
    }
}

/// The story: a spoke was set back to a time before our last write and after all that the watch had told. Every list is older than that
/// write from then on: its object seemed to be there, and one that had been deleted to be gone.
#[test]
fn a_list_that_is_as_fresh_as_can_be_decides_about_all_that_was_answered_before_it() {
    let x = || "x".to_owned();
    let before = Instant::now();
    let after = |duration| before + Duration::from_hours(duration);
    // (what, when the list was begun that is as fresh as can be, what is shown of what was made since, and of what was deleted since)
    for (name, latest_as_of, made, deleted) in [
        ("a cache may have answered", None, true, false),
        ("begun before the answers", Some(before), true, false),
        ("begun after them", Some(after(1)), false, true),
    ] {
        let mut collection = Collection::<String>::default();
        collection.listed(Vec::new(), "5", Some(before));
        collection.answered(x(), object("x", "u", "9", "a"));
        collection.listed(Vec::new(), "7", latest_as_of);
        assert_eq!(collection.get(&x()).is_some(), made, "{name}: made");
        let mut collection = Collection::<String>::default();
        let there = || vec![(x(), object("x", "u", "4", "a"))];
        collection.listed(there(), "5", Some(before));
        collection.gone(&x(), "u");
        let changes = collection.listed(there(), "7", latest_as_of);
        assert_eq!(collection.get(&x()).is_some(), deleted, "{name}: deleted");
        assert_eq!(changes.len(), usize::from(deleted), "{name}: news");
    }
}
