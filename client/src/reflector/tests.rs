use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::follow::Timing;
use super::*;
use crate::testing::{
    PATIENCE, Reply, Server, held, json as answer_json, never, reply, stream, until,
};

const PATH: &str = "/clusters/*/apis/example.com/v1/widgets";

fn endpoint() -> Endpoint {
    Endpoint {
        scope: Some(api::ClusterScope::All),
        gvr: api::GroupVersionResource::new("example.com", "v1", "widgets"),
        namespace: None,
    }
}

/// Answers the requests of a test one after another, lists and watches apart; the last answer is repeated for lists,
/// and watches without an answer stay open.
#[derive(Default)]
struct Script {
    lists: Mutex<Vec<fn(&str) -> Reply>>,
    watches: Mutex<Vec<fn(&str) -> Reply>>,
}

impl Script {
    fn next(&self, query: &str) -> Reply {
        let is_watch = query.contains("watch=true");
        let mut left = if is_watch { &self.watches } else { &self.lists }
            .lock()
            .unwrap();
        match left.len() {
            0 if is_watch => stream_held(&[]),
            0 => reply(500, "no more lists"),
            1 if !is_watch => left[0](query),
            _ => left.remove(0)(query),
        }
    }
}

struct Followed {
    server: Server,
    tasks: Tasks,
    signals: Signals,
    events: mpsc::Receiver<Event>,
}

async fn follow(lists: Vec<fn(&str) -> Reply>, watches: Vec<fn(&str) -> Reply>) -> Followed {
    let script = Script {
        lists: Mutex::new(lists),
        watches: Mutex::new(watches),
    };
    let server =
        Server::start(move |request| script.next(request.uri().query().unwrap_or_default())).await;
    follow_with(server, timing()).await
}

/// Follows what a server tells of the collection, by other deadlines.
async fn follow_with(server: Server, timing: Timing) -> Followed {
    let tasks = Tasks::new();
    let config = Config {
        client: server.connect().await.client(),
        endpoint: endpoint(),
        label_selector: Some("a=b".parse().unwrap()),
        field_selector: None,
        name: "test".to_owned(),
    };
    let signals = Signals::default();
    let token = tasks.child_token();
    let events = start_with(config, timing, signals.clone(), &tasks, token);
    Followed {
        server,
        tasks,
        signals,
        events,
    }
}

fn timing() -> Timing {
    Timing {
        page_deadline_initial: Duration::from_secs(5),
        page_deadline_max: Duration::from_secs(5),
        head_deadline: Duration::from_secs(5),
        watch_seconds: 290..=290,
        silence_grace: Duration::from_secs(15),
        // What a test's server ends at once, it ends on purpose.
        watch_min: Duration::ZERO,
        pause_initial: Duration::from_millis(1),
        pause_max: Duration::from_millis(5),
        bound_pause_initial: Duration::from_millis(1),
        bound_pause_max: Duration::from_millis(5),
    }
}

impl Followed {
    /// Waits for the next event and says it in short.
    async fn next(&mut self) -> String {
        let event = timeout(PATIENCE, self.events.recv())
            .await
            .expect("no event came");
        match event.expect("the reflector ended") {
            Event::Restarted {
                objects,
                resource_version,
                ..
            } => {
                let names: Vec<&str> = objects.iter().map(|it| it.name.as_str()).collect();
                format!("restarted {}@{resource_version}", names.join(","))
            }
            Event::Applied(object) => {
                format!("applied {}@{}", object.name, object.resource_version)
            }
            Event::Deleted(object) => {
                format!("deleted {}@{}", object.name, object.resource_version)
            }
            Event::Interrupted(reason) => format!("interrupted {reason}"),
            Event::Resumed => "resumed".to_owned(),
        }
    }

    async fn expect(&mut self, want: &[&str]) {
        for want in want {
            assert_eq!(self.next().await, *want);
        }
    }

    /// The versions from which watches were begun.
    fn watched_from(&self) -> Vec<String> {
        let query = |line: &String| api::query::Query::parse(line.split_once('?')?.1).into();
        self.server
            .lines()
            .iter()
            .filter_map(query)
            .filter(|query: &api::query::Query| query.flag("watch"))
            .map(|query| query.text("resourceVersion").to_owned())
            .collect()
    }

    fn list_count(&self) -> usize {
        self.server
            .lines()
            .iter()
            .filter(|line| !line.contains("watch=true"))
            .count()
    }
}

fn widget(name: &str, version: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "resourceVersion": version}})
}

fn list(names: &[&str], version: &str, continue_token: &str) -> Reply {
    let items: Vec<Value> = names.iter().map(|name| widget(name, "1")).collect();
    answer_json(
        200,
        &json!({"kind": "WidgetList", "apiVersion": "example.com/v1",
        "metadata": {"resourceVersion": version, "continue": continue_token}, "items": items}),
    )
}

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": format!("said {code}")})
}

fn line(type_: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": type_, "object": object}))
}

/// A watch that says something and ends.
fn stream_ended(lines: &[String]) -> Reply {
    let (sender, reply) = stream();
    for line in lines {
        sender.send(Bytes::from(line.clone())).unwrap();
    }
    reply
}

/// A watch that says something and stays open.
fn stream_held(lines: &[String]) -> Reply {
    held(lines.iter().map(|line| Bytes::from(line.clone())).collect())
}

#[tokio::test]
async fn pages_make_one_restart_and_changes_follow() {
    let mut followed = follow(
        vec![|_| list(&["a", "b"], "10", "next"), |_| {
            list(&["c"], "10", "")
        }],
        vec![|_| {
            stream_held(&[
                line("ADDED", &widget("d", "11")),
                line("MODIFIED", &widget("a", "12")),
                line("DELETED", &widget("b", "13")),
            ])
        }],
    )
    .await;
    followed
        .expect(&[
            "restarted a,b,c@10",
            "applied d@11",
            "applied a@12",
            "deleted b@13",
        ])
        .await;
    let lines = followed.server.lines();
    let query = |line: &str| line.split_once('?').unwrap().1.to_owned();
    assert_eq!(query(&lines[0]), "labelSelector=a%3Db&limit=500");
    assert_eq!(
        query(&lines[1]),
        "labelSelector=a%3Db&continue=next&limit=500"
    );
    assert_eq!(
        query(&lines[2]),
        "labelSelector=a%3Db&watch=true&allowWatchBookmarks=true&resourceVersion=10&timeoutSeconds=290"
    );
    assert!(
        lines
            .iter()
            .all(|line| line.starts_with(&format!("GET {PATH}?")))
    );
}

#[tokio::test]
async fn a_watch_that_ends_is_resumed_from_the_last_version_without_a_list() {
    let mut followed = follow(
        vec![|_| list(&["a"], "10", "")],
        vec![
            |_| stream_ended(&[line("MODIFIED", &widget("a", "11"))]),
            |_| stream_ended(&[line("BOOKMARK", &widget("", "20"))]),
            |_| {
                stream_ended(&[
                    line("MODIFIED", &widget("a", "21")),
                    "{\"type\":\"ADD".to_owned(),
                ])
            },
            |_| stream_held(&[line("ADDED", &widget("b", "22"))]),
        ],
    )
    .await;
    followed
        .expect(&[
            "restarted a@10",
            "applied a@11",
            "applied a@21",
            "applied b@22",
        ])
        .await;
    assert_eq!(followed.watched_from(), ["10", "11", "20", "21"]);
    assert_eq!(followed.list_count(), 1);
}

#[tokio::test]
async fn a_version_that_is_gone_means_a_new_list() {
    for watch in [
        (|_| stream_ended(&[line("ERROR", &status(410, "Expired"))])) as fn(&str) -> Reply,
        |_| answer_json(410, &status(410, "Expired")),
        |_| answer_json(410, &status(410, "Gone")),
        |_| answer_json(422, &status(422, "Invalid")),
    ] {
        let mut followed = follow(
            vec![|_| list(&["a", "b"], "10", ""), |_| list(&["b"], "30", "")],
            vec![watch],
        )
        .await;
        followed
            .expect(&["restarted a,b@10", "restarted b@30"])
            .await;
        until("the second watch", || followed.watched_from().len() == 2).await;
        assert_eq!(followed.watched_from(), ["10", "30"]);
    }
}

#[tokio::test]
async fn a_list_that_fails_or_is_cut_delivers_nothing() {
    let mut followed = follow(
        vec![
            |_| reply(500, "boom"),
            |_| {
                reply(
                    200,
                    r#"{"kind":"WidgetList","items":[{"metadata":{"name":"a"}}"#,
                )
            },
            |_| reply(200, r#"{"kind":"WidgetList"}"#),
            |_| answer_json(200, &status(200, "")),
            |_| list(&["a"], "10", "next"),
            |_| reply(503, "away"),
            |_| list(&["a", "b"], "10", ""),
        ],
        vec![],
    )
    .await;
    followed
        .expect(&[
            "interrupted the server answered 500 Internal Server Error: boom",
            "restarted a,b@10",
        ])
        .await;
}

#[tokio::test]
async fn an_outage_is_told_once_and_so_is_its_end() {
    let mut followed = follow(
        vec![|_| list(&["a"], "10", "")],
        vec![
            |_| stream_ended(&[line("MODIFIED", &widget("a", "11"))]),
            |_| reply(503, "away"),
            |_| reply(504, "away"),
            |_| reply(503, "away"),
            |_| reply(502, "away"),
            |_| stream_held(&[line("MODIFIED", &widget("a", "12"))]),
        ],
    )
    .await;
    followed
        .expect(&[
            "restarted a@10",
            "applied a@11",
            "interrupted the server answered 503 Service Unavailable: away",
            "resumed",
            "applied a@12",
        ])
        .await;
    assert_eq!(followed.list_count(), 1);
}

#[tokio::test]
async fn a_server_that_keeps_refusing_the_resume_is_listed_anew() {
    let mut followed = follow(
        vec![|_| list(&["a"], "10", ""), |_| list(&["b"], "20", "")],
        vec![
            |_| stream_ended(&[line("ERROR", &status(500, "InternalError"))]),
            |_| stream_ended(&[line("ERROR", &status(500, "InternalError"))]),
            |_| stream_ended(&[line("ERROR", &status(500, "InternalError"))]),
        ],
    )
    .await;
    followed
        .expect(&["restarted a@10", "interrupted said 500"])
        .await;
    // Between the attempts the stream is open for a moment, which counts as resumed.
    loop {
        let event = followed.next().await;
        if event == "restarted b@20" {
            break;
        }
        assert!(
            event == "resumed" || event == "interrupted said 500",
            "{event}"
        );
    }
}

#[tokio::test]
async fn a_history_that_goes_back_is_another_one() {
    let mut followed = follow(
        vec![|_| list(&["a"], "100", ""), |_| list(&["b"], "8", "")],
        vec![|_| stream_held(&[line("BOOKMARK", &widget("", "7"))])],
    )
    .await;
    followed.expect(&["restarted a@100", "restarted b@8"]).await;
    let lists: Vec<String> = followed
        .server
        .lines()
        .into_iter()
        .filter(|line| !line.contains("watch=true"))
        .collect();
    assert!(lists[1].contains("resourceVersion=100&"), "{lists:?}");
}

#[tokio::test]
async fn a_list_that_cannot_be_as_new_as_wanted_is_asked_for_as_it_is() {
    let mut followed = follow(
        vec![
            |_| list(&["a"], "100", ""),
            |query| {
                assert!(query.contains("resourceVersion=100&resourceVersionMatch=NotOlderThan"));
                let mut refused = status(504, "Timeout");
                refused["details"] = json!({"causes": [{"reason": "ResourceVersionTooLarge"}]});
                answer_json(504, &refused)
            },
            |query| {
                assert!(!query.contains("resourceVersion"), "{query}");
                list(&["b"], "8", "")
            },
        ],
        vec![|_| answer_json(410, &status(410, "Expired"))],
    )
    .await;
    followed
        .expect(&["restarted a@100", "interrupted said 504", "restarted b@8"])
        .await;
}

#[tokio::test]
async fn a_list_that_is_lost_is_asked_for_again_and_a_slow_one_gets_its_time() {
    let script = Script {
        // The second takes longer than the deadline that follows the first; the last is repeated.
        lists: Mutex::new(vec![|_| never(), |_| slow_list(), |_| slow_list()]),
        watches: Mutex::default(),
    };
    let server =
        Server::start(move |request| script.next(request.uri().query().unwrap_or_default())).await;
    let timing = Timing {
        page_deadline_initial: Duration::from_millis(100),
        page_deadline_max: Duration::from_secs(30),
        ..timing()
    };
    let mut followed = follow_with(server, timing).await;
    followed
        .expect(&["interrupted no answer in time", "restarted a@10"])
        .await;
    assert!(followed.list_count() >= 3, "{}", followed.list_count());
}

/// A list that takes its time.
fn slow_list() -> Reply {
    Box::pin(async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        list(&["a"], "10", "").await
    })
}

/// Starts a server that answers its lists as they are counted, and holds its watches open.
async fn listing(answer: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Server {
    let count = Mutex::new(0);
    Server::start(move |request| {
        let query = request.uri().query().unwrap_or_default();
        if query.contains("watch=true") {
            return stream_held(&[]);
        }
        let mut count = count.lock().unwrap();
        *count += 1;
        answer(*count)
    })
    .await
}

#[tokio::test]
async fn a_wake_ends_the_pause_of_an_attempt_that_was_under_way() {
    let release = Arc::new(Notify::new());
    let released = Arc::clone(&release);
    let server = listing(move |count| {
        let released = Arc::clone(&released);
        Box::pin(async move {
            if count == 1 {
                released.notified().await;
                return answer_json(503, &status(503, "ServiceUnavailable")).await;
            }
            list(&["a"], "10", "").await
        })
    })
    .await;
    let timing = Timing {
        pause_initial: Duration::from_hours(1),
        pause_max: Duration::from_hours(1),
        page_deadline_initial: PATIENCE,
        ..timing()
    };
    let mut followed = follow_with(server, timing).await;
    until("the first list", || followed.list_count() == 1).await;
    followed.signals.wake();
    release.notify_one();
    followed
        .expect(&["interrupted said 503", "restarted a@10"])
        .await;
}

#[tokio::test]
async fn a_return_lists_anew_only_what_was_listed_before_the_server_was_away() {
    let release = Arc::new(Notify::new());
    let released = Arc::clone(&release);
    let server = listing(move |count| {
        let released = Arc::clone(&released);
        Box::pin(async move {
            if count == 2 {
                released.notified().await;
            }
            list(&["a"], "10", "").await
        })
    })
    .await;
    let mut followed = follow_with(server, timing()).await;
    followed.expect(&["restarted a@10"]).await;

    followed.signals.note_away();
    followed.signals.relist();
    until("the second list", || followed.list_count() == 2).await;
    followed.signals.note_back();
    release.notify_one();
    followed.expect(&["restarted a@10"]).await;
    until("the second watch", || followed.watched_from().len() == 2).await;
    assert_eq!(followed.list_count(), 2, "it began after the outage");

    followed.signals.note_away();
    followed.signals.note_back();
    followed.expect(&["restarted a@10"]).await;
    assert_eq!(followed.list_count(), 3, "it began before the outage");
}

#[tokio::test]
async fn a_return_lists_anew_what_was_not_watched_without_a_break() {
    let lists: Vec<fn(&str) -> Reply> = vec![|_| list(&["a"], "10", "")];
    let mut followed = follow(lists, vec![|_| stream_ended(&[])]).await;
    followed.expect(&["restarted a@10"]).await;
    until("the second watch", || followed.watched_from().len() == 2).await;
    assert_eq!(followed.list_count(), 1, "the watch was resumed");
    followed.signals.note_back();
    followed.expect(&["restarted a@10"]).await;
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_given_up() {
    let script = Script {
        lists: Mutex::new(vec![|_| list(&["a"], "10", "")]),
        watches: Mutex::new(vec![
            |_| stream_held(&[line("MODIFIED", &widget("a", "11"))]),
            |_| never(),
        ]),
    };
    let server =
        Server::start(move |request| script.next(request.uri().query().unwrap_or_default())).await;
    let timing = Timing {
        watch_seconds: 0..=0,
        silence_grace: Duration::from_millis(100),
        head_deadline: Duration::from_millis(100),
        ..timing()
    };
    let mut followed = follow_with(server, timing).await;
    followed
        .expect(&[
            "restarted a@10",
            "applied a@11",
            "interrupted nothing came for longer than the watch was to last",
            "resumed",
        ])
        .await;
    // The second watch never got a head, the third did.
    assert_eq!(followed.watched_from(), ["10", "11", "11"]);
}

#[tokio::test]
async fn a_slow_consumer_misses_nothing() {
    const COUNT: usize = 3 * EVENT_COUNT_MAX;
    let mut followed = follow(
        vec![|_| list(&[], "10", "")],
        vec![|_| {
            let lines: Vec<String> = (0..COUNT)
                .map(|index| {
                    line(
                        "ADDED",
                        &widget(&format!("w{index}"), &(100 + index).to_string()),
                    )
                })
                .collect();
            stream_held(&lines)
        }],
    )
    .await;
    until("a full channel", || {
        followed.events.len() == EVENT_COUNT_MAX
    })
    .await;
    followed.expect(&["restarted @10"]).await;
    for index in 0..COUNT {
        assert_eq!(
            followed.next().await,
            format!("applied w{index}@{}", 100 + index)
        );
    }
}

#[tokio::test]
async fn lists_between_watches_that_fail_come_ever_more_seldom() {
    let server = Server::start(|request| {
        if request
            .uri()
            .query()
            .unwrap_or_default()
            .contains("watch=true")
        {
            answer_json(410, &status(410, "Expired"))
        } else {
            list(&["a"], "10", "")
        }
    })
    .await;
    let timing = Timing {
        watch_min: Duration::from_secs(5),
        pause_initial: Duration::from_millis(10),
        pause_max: Duration::from_secs(1),
        ..timing()
    };
    let started = Instant::now();
    let mut followed = follow_with(server, timing).await;
    for _ in 0..6 {
        followed.expect(&["restarted a@10"]).await;
    }
    // Five pauses, each at least a half of 10, 20, 40, 80 and 160 ms.
    assert!(
        started.elapsed() >= Duration::from_millis(155),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn a_reflector_ends_with_its_token_and_with_its_consumer() {
    let mut followed = follow(vec![|_| list(&["a"], "10", "")], vec![]).await;
    followed.expect(&["restarted a@10"]).await;
    let report = followed.tasks.shutdown(PATIENCE).await;
    assert_eq!(report, tasks::ShutdownReport::default());
    assert!(followed.events.recv().await.is_none());

    let failing = follow(vec![|_| reply(503, "away")], vec![]).await;
    drop(failing.events);
    until("the end of the reflector", || {
        failing.tasks.running().is_empty()
    })
    .await;
}
