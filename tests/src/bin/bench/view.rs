//! `hack/bench view`: a large fleet in a real browser, from a real hub.
//!
//! The frames of a page are what a person sees. Chromium draws at most one in 16.7 ms; a longer interval is one that was missed. The
//! browser, the hub and its syncer share the machine. The time of the page's main thread is the steady figure.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use wheelhouse_tests::{
    Hub,
    browser::{Browser, Tab},
    hub::Settings,
    process::Scratch,
    wait::within,
};

use crate::{
    Asked, fleet,
    measure::{Cost, Series, float, percentile_ms},
    report::{Better, Report, say},
    wire::Wire,
};

const TOKEN: &str = "chief";
const SPOKES: usize = 200;
const INSTANCES: usize = 10_000;
/// Of so many instances one is not ready.
const WAITING: usize = 100;
/// Instances that are changed in one go.
const BURST: usize = 1_000;
/// Changes under way.
const WIDTH: usize = 8;
/// The main thread may take so long for a frame, or the browser misses the next one.
const FRAME_MS: f64 = 16.0;
/// How long the syncer may take for all instances.
const PATIENCE: Duration = Duration::from_mins(10);

/// Begins to record frames, and tasks of 50 ms and longer.
const RECORD: &str = "(() => {
  const it = window.bench = { frames: [], tasks: [], isOn: true };
  it.observer = new PerformanceObserver((found) => it.tasks.push(...found.getEntries().map(({ duration }) => duration)));
  it.observer.observe({ type: 'longtask' });
  let last = null;
  const tick = (now) => {
    if (last !== null) it.frames.push(now - last);
    last = now;
    if (it.isOn) requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
})()";
/// Ends it, and returns what there was.
const RECORDED: &str = "(() => {
  const { frames, tasks, observer } = window.bench;
  window.bench.isOn = false;
  observer.disconnect();
  return { frames, tasks };
})()";
/// Scrolls from the first row to the last one, a piece in each frame.
const SCROLL: &str = "(async () => {
  const scroller = document.querySelector('.scroller');
  const end = scroller.scrollHeight - scroller.clientHeight;
  const began = performance.now();
  for (let part = 0; part < 1; ) {
    part = Math.min(1, (performance.now() - began) / 5000);
    scroller.scrollTop = end * part;
    await new Promise(requestAnimationFrame);
  }
})()";
/// Whether rows are drawn, and all of them were read.
const ROWS: &str = "document.querySelectorAll('.row a').length && ![...document.querySelectorAll('.row')].some((it) => it.innerText.trim() === '…')";

/// A hub with many embedded clusters, and somebody who looks at them.
struct Stage {
    hub: Hub,
    wire: Wire,
    clusters: Vec<String>,
    tab: Tab,
    _browser: Browser,
    _scratch: Scratch,
}

/// What the main thread of a page did, in milliseconds, and what the page holds.
#[derive(Clone, Copy)]
struct Load {
    task_ms: f64,
    heap_bytes: f64,
    node_count: f64,
}

/// Opens the page anew in each round.
///
/// # Panics
/// Where Chromium is not installed.
pub(crate) async fn run(asked: &Asked, report: &mut Report) {
    let clusters = asked.spokes.unwrap_or(SPOKES);
    let count = asked.count.unwrap_or(INSTANCES);
    let mut stage = Stage::set(clusters, count, report).await;
    for round in 0..asked.rounds.unwrap_or(3) {
        stage.opens(count, report).await;
        stage.scrolls(report).await;
        stage.searches(count, report).await;
        stage.changes(count, round, report).await;
        stage.bursts(count, round, report).await;
    }
    let load = stage.load().await;
    let end = load.heap_bytes / float(1 << 20);
    less(report, "heap of the page at the end", "MB", end);
    less(report, "nodes of the page at the end", "", load.node_count);
    stage.memory("at the end", report);
    report.note(format!(
        "{clusters} embedded clusters with {count} instances of one definition, each with a ConfigMap; one of {WAITING} instances is never \
         ready. Chromium without a window and without a GPU, 1360 by 820 pixels, on the same machine as the hub."
    ));
}

fn less(report: &mut Report, what: &str, unit: &'static str, value: impl Into<Series>) {
    let value = value.into();
    say(&format!("view: {what}: {:.1} {unit}", value.median()));
    report.row(what, unit, value, Series::default(), Better::Less);
}

/// The frames of a while, in which the main thread had `task_ms` to do.
fn frames(report: &mut Report, what: &str, task_ms: f64, recorded: &Value) {
    let micros = |ms: f64| Duration::from_secs_f64(ms / 1000.0).as_micros();
    let times = |name: &str| -> Vec<u64> {
        let all = recorded[name].as_array().into_iter().flatten();
        let all = all.filter_map(Value::as_f64).map(micros);
        all.map(|it| u64::try_from(it).unwrap_or(u64::MAX))
            .collect()
    };
    let (frames, tasks) = (times("frames"), times("tasks"));
    assert!(frames.len() > 10, "{what}: frames were drawn");
    for percent in [50, 99] {
        let name = format!("{what}, frame, p{percent}");
        less(report, &name, "ms", percentile_ms(&frames, percent));
    }
    let each = task_ms / float(frames.len() as u64);
    let name = format!("{what}, main thread for each frame");
    less(report, &name, "ms", each);
    report.wanted_of(&name, FRAME_MS);
    let longest = percentile_ms(&frames, 100);
    less(report, &format!("{what}, longest frame"), "ms", longest);
    let count = float(tasks.len() as u64);
    less(report, &format!("{what}, tasks over 50 ms"), "", count);
}

/// The definition of the instances: one is ready as soon as its ConfigMap says so.
fn definition() -> Value {
    let map = json!({"id": "map", "readyWhen": ["${map.data.ready == 'yes'}"], "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}"}, "data": {"text": "${schema.spec.text}", "ready": "${schema.spec.ready}"}}});
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "note"}, "spec": {
        "resources": [map], "schema": {"apiVersion": "v1alpha1", "kind": "Note", "spec": {"text": "string", "ready": "string"}}}})
}

fn path(cluster: &str) -> String {
    format!("/clusters/{cluster}/apis/kro.run/v1alpha1/namespaces/default/notes")
}

fn note(index: usize) -> Value {
    let ready = if index % WAITING == WAITING / 2 {
        "no"
    } else {
        "yes"
    };
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "Note", "metadata": {"name": format!("note-{index:05}")},
        "spec": {"text": "x".repeat(200), "ready": ready}})
}

// === impl Stage ===

impl Stage {
    async fn set(clusters: usize, count: usize, report: &mut Report) -> Self {
        let chromium =
            Browser::installed().expect("Chromium is installed: apt-get install chromium");
        let scratch = Scratch::new("view");
        let tokens = scratch.write(
            "tokens.csv",
            format!("{TOKEN},{TOKEN},1,\"system:masters\"\n"),
        );
        let settings = Settings {
            arguments: vec!["--token-auth-file".to_owned(), tokens.display().to_string()],
            ..Settings::default()
        };
        let (hub, browser) = tokio::join!(Hub::start_with(settings), Browser::start(&chromium));
        let wire = fleet::wire(&hub).await;
        let clusters: Vec<String> = (0..clusters)
            .map(|index| format!("spoke-{index:03}"))
            .collect();
        fleet::embed(&wire, &clusters).await;
        fleet::accept(&wire, &definition()).await;
        for cluster in &clusters {
            let served = || async {
                let (code, answer) = wire.json("GET", &path(cluster), &Value::Null).await;
                (code == 200).then_some(()).ok_or(answer.to_string())
            };
            within(PATIENCE, "the kind is served", served).await;
        }
        let tab = browser.tab(1360, 820).await;
        let stage = Self {
            hub,
            wire,
            clusters,
            tab,
            _browser: browser,
            _scratch: scratch,
        };
        stage.memory("without instances", report);
        let notes = (0..count).map(|index| (path(stage.cluster(index)), note(index)));
        fleet::send_all(&stage.wire, "POST", 201, notes).await;
        stage.settled(count).await;
        stage.memory("with all instances", report);
        stage
    }

    fn memory(&self, when: &str, report: &mut Report) {
        let rss = float(self.hub.process().usage().1) / float(1 << 20);
        less(report, &format!("RSS of the hub {when}"), "MB", rss);
    }

    /// The cluster of an instance.
    fn cluster(&self, index: usize) -> &str {
        &self.clusters[index % self.clusters.len()]
    }

    /// Waits until all instances are as they stay.
    async fn settled(&self, count: usize) {
        let waiting = (0..count).filter(|it| it % WAITING == WAITING / 2).count();
        let path = "/ui/api/instances?kind=notes.v1alpha1.kro.run&limit=1";
        within(PATIENCE, "all instances are reconciled", || async {
            // To look costs the hub a search.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (_, found) = self.wire.json("GET", path, &Value::Null).await;
            let ready = found["states"]["ready"] == json!(count - waiting);
            ready.then_some(()).ok_or(found["states"].to_string())
        })
        .await;
    }

    /// Opens a page anew, and tells after how many milliseconds a condition holds.
    async fn until(&mut self, action: &str, condition: &str) -> f64 {
        let script = format!(
            "(async () => {{ const began = performance.now(); {action}; while (!({condition})) await new Promise(requestAnimationFrame); return performance.now() - began; }})()"
        );
        let took = self.tab.eval(&script).await;
        took.as_f64().expect("a time")
    }

    async fn load(&mut self) -> Load {
        let answer = self.tab.call("Performance.getMetrics", json!({})).await;
        let metric = |name: &str| {
            let mut all = answer["metrics"].as_array().into_iter().flatten();
            let found = all.find(|it| it["name"] == name);
            found
                .and_then(|it| it["value"].as_f64())
                .unwrap_or(f64::NAN)
        };
        Load {
            task_ms: metric("TaskDuration") * 1000.0,
            heap_bytes: metric("JSHeapUsedSize"),
            node_count: metric("Nodes"),
        }
    }

    /// Begins to record frames.
    async fn record(&mut self) -> Load {
        self.tab.eval(RECORD).await;
        self.load().await
    }

    /// Ends that, and tells of them.
    async fn recorded(&mut self, before: Load, what: &str, report: &mut Report) {
        let task_ms = self.load().await.task_ms - before.task_ms;
        let recorded = self.tab.eval(RECORDED).await;
        frames(report, what, task_ms, &recorded);
    }

    /// The fleet, and then all instances.
    async fn opens(&mut self, count: usize, report: &mut Report) {
        let url = format!("{}/ui/#token={TOKEN}", self.hub.server());
        self.tab.call("Performance.enable", json!({})).await;
        // Another fragment of the same page would open nothing.
        self.tab.open("about:blank").await;
        self.tab.open(&url).await;
        self.tab.until("document.querySelector('.tile')").await;
        let paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
        // The entry comes a moment after the paint that it tells of.
        self.tab.until(&format!("{paint} > 0")).await;
        let paint = self.tab.eval(paint).await.as_f64().unwrap_or(f64::NAN);
        less(report, "first paint", "ms", paint);
        report.wanted_of("first paint", 300.0);
        let tiles = format!(
            "document.querySelectorAll('.tile').length === {}",
            self.clusters.len()
        );
        self.tab.until(&tiles).await;
        let shown = self.tab.eval("performance.now()").await;
        let shown = shown.as_f64().unwrap_or(f64::NAN);
        less(report, "all tiles after the start of the page", "ms", shown);
        let text = format!("instance{}", if count == 1 { "" } else { "s" });
        let all =
            format!("{ROWS} && document.querySelector('.summary').innerText.endsWith({text:?})");
        let processes = vec![("hub", self.hub.process().pid())];
        let opened = self.until("location.hash = '#/instances'", &all);
        let (cost, opened) = Cost::of(&processes, 1, opened).await;
        less(report, "instances: first rows", "ms", opened);
        let cpu = cost.total_cpu_us() / 1000.0;
        less(report, "instances: CPU of the hub for that", "ms", cpu);
    }

    async fn scrolls(&mut self, report: &mut Report) {
        let before = self.record().await;
        self.tab.eval(SCROLL).await;
        let what = "scrolling over all rows in 5 s";
        self.recorded(before, what, report).await;
        let read = self.until("", ROWS).await;
        less(report, "rows read after the end of scrolling", "ms", read);
    }

    async fn searches(&mut self, count: usize, report: &mut Report) {
        let each = count.div_ceil(self.clusters.len());
        let summary = |count: usize| {
            let digits = format!(
                "document.querySelector('.summary').innerText.replace(/\\D/g, '') === '{count}'"
            );
            format!("{ROWS} && {digits}")
        };
        let type_in = |text: &str| {
            format!(
                "const field = document.querySelector('.search'); field.value = {}; field.dispatchEvent(new Event('input'))",
                json!(text)
            )
        };
        let found = self.until(&type_in("spoke-001"), &summary(each)).await;
        less(
            report,
            "search, from the key to the rows (150 ms are a pause in typing)",
            "ms",
            found,
        );
        self.until(&type_in(""), &summary(count)).await;
        let click = |what: &str| format!("document.querySelector({}).click()", json!(what));
        let header = click("[role=columnheader]:nth-child(4) button");
        let first = "document.querySelector('.row a')?.innerText";
        let is_sorted = format!("{first} === 'note-00000'");
        let sorted = self.until(&header, &is_sorted).await;
        less(report, "sorting by name", "ms", sorted);
        let waiting = (0..count).filter(|it| it % WAITING == WAITING / 2).count();
        let filter = "[...document.querySelectorAll('.filters button')].find((it) => it.innerText.startsWith('In progress')).click()";
        let filtered = self.until(filter, &summary(waiting)).await;
        less(report, "filtering by state", "ms", filtered);
        let all = "[...document.querySelectorAll('.filters button')].find((it) => it.innerText.startsWith('All')).click()";
        self.until(all, &summary(count)).await;
    }

    /// Patches an instance: its state changes with that of its ConfigMap.
    async fn patch(&self, index: usize, body: &Value) {
        let path = format!("{}/note-{index:05}", path(self.cluster(index)));
        let connection = self.wire.connection(index);
        let body = Bytes::from(body.to_string());
        let answer = connection.send("PATCH", &path, "application/merge-patch+json", body);
        let (code, body) = answer.await.expect("an answer");
        assert_eq!(code, 200, "{path}: {}", String::from_utf8_lossy(&body));
    }

    /// Changes in the whole fleet while somebody looks: how long until one in sight is seen, and how the page draws.
    async fn changes(&mut self, count: usize, round: usize, report: &mut Report) {
        let state = "[...document.querySelectorAll('.row')].find((it) => it.innerText.includes('note-00001'))?.innerText";
        let mut seen = Series::default();
        for (ready, word) in [("no", "In progress"), ("yes", "Ready")].repeat(3) {
            let watching = format!(
                "window.seen = (async () => {{ const began = performance.now(); while (!{state}?.includes('{word}')) await new Promise(requestAnimationFrame); return performance.now() - began; }})(); null"
            );
            self.tab.eval(&watching).await;
            self.patch(1, &json!({"spec": {"ready": ready}})).await;
            let took = self.tab.eval("window.seen").await;
            seen.push(took.as_f64().expect("a time"));
        }
        less(
            report,
            "a change of an instance, reconciled and seen",
            "ms",
            seen,
        );
        let before = self.record().await;
        let mut interval = tokio::time::interval(Duration::from_millis(10));
        for step in 0..BURST / 2 {
            interval.tick().await;
            let index = step * 7919 % count;
            self.patch(
                index,
                &json!({"spec": {"text": format!("change {step} of {round}")}}),
            )
            .await;
        }
        self.recorded(before, "100 changes a second", report).await;
    }

    /// Many changes as fast as the hub takes them.
    async fn bursts(&mut self, count: usize, round: usize, report: &mut Report) {
        let burst = BURST.min(count);
        let before = self.record().await;
        let body = json!({"metadata": {"labels": {"burst": format!("b-{round}")}}});
        stream::iter(0..burst)
            .for_each_concurrent(WIDTH, |index| self.patch(index, &body))
            .await;
        let what = format!("{burst} changes at once");
        self.recorded(before, &what, report).await;
    }
}
