//! What goes wrong with one read, or what one value says, stops no page.
//!
//! What no honest hub answers is put into the pages by a `fetch` of their own.

use serde_json::json;
use wheelhouse_tests::browser::Tab;

use super::{Scene, go, is, shows, sign_in, tile};

/// Puts a function `(url, options, real) => response` before `fetch`; `undefined` is the real answer.
const STUB: &str = r"
    window.asked = [];
    window.answer = (value, status = 200) => new Response(JSON.stringify(value), { status });
    const real = window.fetch;
    window.fetch = async (url, options) => {
        window.asked.push(url);
        return await window.stub(url, options) ?? real(url, options);
    };
    window.stub = async () => {};
";

/// Opens the view with a stub in place before anybody signs in.
async fn stubbed(scene: &Scene, token: &str, stub: &str) -> Tab {
    let mut tab = scene.browser.tab(1360, 820).await;
    tab.open(&format!("{}/ui", scene.hub.server())).await;
    tab.until("document.querySelector('#token')").await;
    tab.eval(STUB).await;
    set(&mut tab, stub).await;
    sign_in(&mut tab, token).await;
    tab
}

async fn set(tab: &mut Tab, stub: &str) {
    tab.eval(&format!(
        "window.stub = async (url, options) => {{ {stub} }}; null"
    ))
    .await;
}

pub(super) async fn are_survived(scene: &Scene) {
    values_of_other_shapes_are_shown(scene).await;
    a_read_that_fails_is_tried_again(scene).await;
    many_kinds_are_read_as_far_as_they_fit(scene).await;
    what_passes_by_is_not_read(scene).await;
    who_was_signed_in_before_is_not_seen(scene).await;
}

/// A time that was no text threw in each frame, and the page stood still.
async fn values_of_other_shapes_are_shown(scene: &Scene) {
    let events = json!({"metadata": {"resourceVersion": "1"}, "items": [
        {"metadata": {"uid": "1"}, "type": "Warning", "lastTimestamp": {"a": 1}, "count": [2], "reason": {}, "message": 7},
        {"metadata": {"uid": "2"}, "lastTimestamp": 5, "reason": "constructor", "message": ["first"]},
        {"metadata": {"uid": "3"}, "lastTimestamp": {"_$litType$": 1, "strings": ["<b>"], "values": []}, "message": "last"},
    ]});
    let stub = format!(
        "if (url.includes('/events?')) return url.includes('watch') ? new Promise(() => {{}}) : answer({events});"
    );
    let tab = &mut stubbed(scene, "chief", &stub).await;
    let route = "#/instances/webapps.v1alpha1.kro.run/east/default/shop";
    go(tab, route).await;
    tab.until("document.querySelectorAll('.node.good').length === 3")
        .await;
    tab.until(&shows("[\"first\"]")).await;
    tab.until(&shows("shop-config")).await;
    // A refusal of a spoke signs nobody out.
    go(tab, "#/").await;
    set(
        tab,
        "if (url.includes('/events?')) return answer({message: 'the spoke knows you not'}, 401);",
    )
    .await;
    go(tab, route).await;
    tab.until(&shows("the spoke knows you not")).await;
    tab.until(&shows("shop-config")).await;
    is(tab, "document.querySelector('#token')", &json!(null)).await;
    // Nodes that wait for each other.
    go(tab, "#/").await;
    let node = |id: &str, other: &str| json!({"id": id, "kind": "A", "traits": [], "dependencies": [other], "x": 0, "y": 0, "width": 9, "height": 9});
    let circle = json!({"name": "circle", "nodes": [node("a", "b"), node("b", "a")], "edges": [], "width": 9, "height": 9, "compiled": false, "omitted": 0});
    let stub = format!("if (url.includes('/ui/api/drawing')) return answer({circle});");
    set(tab, &stub).await;
    let waiting = "#/instances/webapps.v1alpha1.kro.run/small/default/waiting";
    go(tab, waiting).await;
    tab.until("document.querySelectorAll('.node.off').length === 2")
        .await;
    // What nobody has thought of stops one page, and the frame around it goes on.
    go(tab, "#/").await;
    set(
        tab,
        "if (url.includes('/ui/api/drawing')) return answer({nodes: 7});",
    )
    .await;
    go(tab, route).await;
    tab.until(&shows("This page cannot be shown")).await;
    go(tab, "#/").await;
    tab.until(&tile("east", "ready")).await;
}

/// Where the first read failed, the pages stayed empty.
async fn a_read_that_fails_is_tried_again(scene: &Scene) {
    let failing = "if (url.includes('/ui/api/')) { window.count = (window.count ?? 0) + 1; if (window.count <= 2) return answer({message: 'not now'}, [429, 503][window.count - 1]); }";
    let tab = &mut stubbed(scene, "chief", failing).await;
    for (route, is_there) in [
        (
            "#/instances",
            "document.querySelectorAll('.row a').length === 3",
        ),
        ("#/matrix", "document.querySelectorAll('td a').length === 3"),
        (
            "#/definitions/root/webapp",
            "document.querySelectorAll('.node').length === 4",
        ),
    ] {
        tab.eval("window.count = 0").await;
        go(tab, route).await;
        tab.until("window.count > 2").await;
        tab.until(is_there).await;
        is(tab, "document.querySelector('.refusal')", &json!(null)).await;
    }
}

/// 65 definitions made the pages fail for everybody, and kinds of one cluster were asked of all.
async fn many_kinds_are_read_as_far_as_they_fit(scene: &Scene) {
    let stub = r"
        const local = (n) => ({ metadata: { uid: `u${n}`, name: `d${n}`, annotations: { 'kcp.io/cluster': 'small' } }, spec: { schema: { apiVersion: 'v1alpha1', kind: `Local${n}` } } });
        const fleet = { metadata: { uid: 'root', name: 'webapp', annotations: { 'kcp.io/cluster': 'root' } }, spec: { schema: { apiVersion: 'v1alpha1', kind: 'WebApp' } } };
        const other = { ...local(300), metadata: { uid: 'other', name: 'other', annotations: { 'kcp.io/cluster': 'other' } } };
        const many = Array.from({ length: 300 }, (_, n) => n);
        if (url.includes('/resourcegraphdefinitions')) return url.includes('watch') ? new Promise(() => {}) : answer({ metadata: { resourceVersion: '1' }, items: [...many.map(local), other, fleet] });
        if (url.split('?')[0].endsWith('/clusters/*/apis/kro.run/v1alpha1')) return answer({ resources: [{ name: 'webapps', kind: 'WebApp' }, ...[...many, 300].map((n) => ({ name: `locals${n}`, kind: `Local${n}` }))] });
    ";
    let tab = &mut stubbed(scene, "chief", stub).await;
    go(tab, "#/instances").await;
    tab.until("document.querySelectorAll('.row a').length === 3")
        .await;
    tab.until(&shows("46 further kinds are not read here"))
        .await;
    let asked = "new URL(window.asked.find(it => it.includes('/ui/api/instances')), location).searchParams.getAll('kind')";
    is(tab, &format!("{asked}.length"), &json!(256)).await;
    for kind in [
        "webapps.v1alpha1.kro.run",
        "locals0.v1alpha1.kro.run@small",
        // The many of one cluster do not displace the one of another.
        "locals300.v1alpha1.kro.run@other",
    ] {
        is(tab, &format!("{asked}.includes('{kind}')"), &json!(true)).await;
    }
    go(tab, "#/matrix").await;
    tab.until("document.querySelectorAll('td a').length === 3")
        .await;
    is(
        tab,
        "window.asked.filter(it => it.startsWith('/clusters/*/') && it.includes('locals'))",
        &json!([]),
    )
    .await;
}

/// Each block that was scrolled over was a search of the whole fleet.
async fn what_passes_by_is_not_read(scene: &Scene) {
    let stub = r"
        if (!url.includes('/ui/api/instances')) return;
        window.now = (window.now ?? 0) + 1;
        window.most = Math.max(window.most ?? 0, window.now);
        await new Promise((resolve) => { setTimeout(resolve, 200); options.signal.addEventListener('abort', resolve); });
        window.now -= 1;
        const offset = Number(new URL(url, location).searchParams.get('offset'));
        const rows = Array.from({ length: 100 }, (_, n) => ({ cluster: 'east', namespace: 'default', name: `row${offset + n}`, kind: 'WebApp', resource: 'webapps.v1alpha1.kro.run', uid: `${offset + n}`, state: 'ready', reason: '', message: '', created: '2026-01-01T00:00:00Z' }));
        return answer({ total: 20000, offset, rows, states: {}, cells: [], failures: [], warnings: [], resourceVersions: {} });
    ";
    let tab = &mut stubbed(scene, "chief", stub).await;
    go(tab, "#/instances").await;
    tab.until(&shows("row0")).await;
    tab.eval("window.asked.length = 0").await;
    tab.eval("(async () => { const it = document.querySelector('.scroller'); for (let n = 1; n <= 40; n += 1) { it.scrollTop = n * 10000; await new Promise((resolve) => setTimeout(resolve, 20)); } })()")
        .await;
    tab.until(&shows("row11770")).await;
    let count = "window.asked.filter(it => it.includes('/ui/api/instances')).length";
    let count = tab.eval(count).await;
    assert!(count.as_u64().is_some_and(|count| count <= 4), "{count}");
    is(tab, "window.most <= 2", &json!(true)).await;
}

/// What was begun for one user was shown to the next one.
async fn who_was_signed_in_before_is_not_seen(scene: &Scene) {
    let stub = "if (url.includes('selfsubjectrulesreviews') && !window.began) { window.began = true; await new Promise((resolve) => { window.goOn = resolve; }); }";
    let tab = &mut stubbed(scene, "alice", stub).await;
    tab.until("window.goOn").await;
    tab.eval(
        "[...document.querySelectorAll('button')].find(it => it.innerText === 'Sign out').click()",
    )
    .await;
    tab.until("document.querySelector('#token')").await;
    sign_in(tab, "chief").await;
    tab.until("document.querySelectorAll('.tile').length === 3")
        .await;
    tab.eval("window.goOn()").await;
    // Whatever would come of it is there once another question is answered.
    tab.eval(
        "fetch('/version').then(() => new Promise((resolve) => { setTimeout(resolve, 500); }))",
    )
    .await;
    is(tab, "document.querySelectorAll('.tile').length", &json!(3)).await;
}
