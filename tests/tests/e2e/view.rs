//! The fleet view in a real browser: what an administrator sees of real spokes, live, and what others do not see.

mod faults;

use std::path::Path;

use serde_json::{Value, json};
use wheelhouse_tests::{
    Hub, Spoke, assets,
    browser::{Browser, Tab},
    eventually,
    hub::Settings,
    issuer::{Issuer, Mode},
    pods,
    process::Scratch,
};

use super::stage::{WEBAPP, instance};

const TOKENS: &str = "chief,chief,1,\"system:masters\"\nalice,alice,2\nnobody,nobody,3\n";
const SIGN_OUT: &str =
    "[...document.querySelectorAll('button')].find(it => it.innerText === 'Sign out').click()";
/// A definition that reads a field which its schema does not have.
const REFUSED: &str = "apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: refused}
spec:
  schema: {apiVersion: v1alpha1, kind: Refused}
  resources:
  - id: item
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.spec.nope}'}}
";
/// What must stay text wherever it stands.
const HOSTILE: &str = "<img src=x onerror=pwned=1><script>pwned=1</script>";
/// Faults of accessibility that fail the trial.
const IMPACTS: &str = "['serious', 'critical']";

/// A hub with a real spoke and an embedded one, and who looks at them.
struct Scene {
    hub: Hub,
    east: Spoke,
    browser: Browser,
    issuer: Issuer,
    _scratch: Scratch,
}

// === impl Scene ===

impl Scene {
    async fn set(chromium: &Path) -> Self {
        let scratch = Scratch::new("view");
        let tokens = scratch.write("tokens.csv", TOKENS);
        let issuer = Issuer::start(Mode::Good).await;
        let authority = scratch.write("issuer.crt", issuer.certificate());
        let arguments = [
            "--token-auth-file",
            &tokens.display().to_string(),
            "--oidc-issuer-url",
            &issuer.url(),
            "--oidc-client-id",
            "view",
            "--oidc-ca-file",
            &authority.display().to_string(),
            "--oidc-username-prefix",
            "-",
            "--oidc-signing-algs",
            "ES256",
            "--view-oidc-client-id",
            "view",
        ];
        let settings = Settings {
            arguments: arguments.map(str::to_owned).to_vec(),
            ..Settings::default()
        };
        let (hub, east, browser) = tokio::join!(
            Hub::start_with(settings),
            Spoke::start("east"),
            Browser::start(chromium)
        );
        hub.join(&east).await;
        let root = hub.root();
        for (name, labels) in [("small", "{tier: edge}"), ("other", "{}")] {
            root.apply(&format!(
                "apiVersion: wheelhouse.dev/v1alpha1\nkind: Spoke\nmetadata: {{name: {name}, labels: {labels}}}\nspec: {{provider: Embedded}}\n"
            ))
            .await;
        }
        root.apply(WEBAPP).await;
        root.must(&[
            "wait",
            "--for=condition=Ready",
            "rgd/webapp",
            "spoke/small",
            "spoke/other",
            "--timeout=60s",
        ])
        .await;
        hub.at("east")
            .apply(&instance("shop", "message: hello"))
            .await;
        pods::make_ready(&east.kubectl(), "shop").await;
        for name in ["small", "other"] {
            let path = hub.at(name);
            eventually("the kind is served", || async {
                let manifest = instance("waiting", &format!("message: {}", json!(HOSTILE)));
                path.run_with_input(&["apply", "-f", "-"], &manifest)
                    .await
                    .ok()
            })
            .await;
        }
        Self {
            hub,
            east,
            browser,
            issuer,
            _scratch: scratch,
        }
    }

    /// Opens the view and signs in as a person does.
    async fn signed_in(&self, token: &str) -> Tab {
        let mut tab = self.browser.tab(1360, 820).await;
        tab.open(&format!("{}/ui", self.hub.server())).await;
        tab.until("document.querySelector('#token')").await;
        sign_in(&mut tab, token).await;
        tab
    }
}

async fn sign_in(tab: &mut Tab, token: &str) {
    tab.eval("document.querySelector('#token').focus()").await;
    tab.insert(token).await;
    tab.eval("document.querySelector('form').requestSubmit()")
        .await;
}

/// Goes to a route, and waits until its page is drawn: what is asked afterwards is not asked of the page before it.
async fn go(tab: &mut Tab, route: &str) {
    let script = "new Promise((done) => {
        const to = ROUTE;
        if (new URL(to, location).hash === location.hash) return done();
        const drawn = () => requestAnimationFrame(() => requestAnimationFrame(() => done()));
        addEventListener('hashchange', drawn, { once: true });
        location.hash = to;
    })";
    tab.bring_to_front().await;
    tab.eval(&script.replace("ROUTE", &json!(route).to_string()))
        .await;
}

/// Whether the page shows a text.
fn shows(text: &str) -> String {
    format!("document.body?.innerText.includes({})", json!(text))
}

/// Asserts what an expression is.
async fn is(tab: &mut Tab, expression: &str, want: &Value) {
    let found = tab.eval(expression).await;
    assert_eq!(found, *want, "{expression}");
}

/// Asserts that the browser has complained of nothing.
fn is_content(tab: &Tab) {
    assert_eq!(tab.complaints(), [""; 0], "what the browser complains of");
    assert!(tab.faults.is_empty(), "{}", tab.faults.join("\n"));
}

fn tile(name: &str, state: &str) -> String {
    format!("document.querySelector('.tile[data-spoke={name}][data-state={state}]')")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fleet_is_seen_in_a_browser_live_and_with_the_rights_of_who_looks() {
    let Some(chromium) = Browser::installed() else {
        assets::skipped("chromium is not installed");
        return;
    };
    let mut scene = Scene::set(&chromium).await;
    strangers_are_let_in_by_a_good_token_alone(&scene).await;
    let mut tab = scene.signed_in("chief").await;
    every_page_shows_what_is(&scene, &mut tab).await;
    is_content(&tab);
    what_changes_is_seen(&scene, &mut tab).await;
    a_new_definition_is_previewed(&mut tab).await;
    a_change_is_previewed(&mut tab).await;
    a_change_that_breaks_is_previewed(&mut tab).await;
    a_refused_definition_says_why(&scene, &mut tab).await;
    what_differs_is_told(&scene, &mut tab).await;
    nothing_foreign_runs(&scene, &mut tab).await;
    a_tenant_sees_its_own(&scene).await;
    people_sign_in_at_an_issuer(&scene).await;
    faults::are_survived(&scene).await;
    is_content(&tab);
    drop(tab);
    let mut tab = instances_say_their_revision(&mut scene).await;
    a_spoke_that_stops_turns_its_tile(&mut scene, &mut tab).await;
    is_content(&tab);
}

/// The revisions in the matrix, by cluster (east, other, small); those that are not the latest with a mark.
const REVISIONS: &str = "[...document.querySelectorAll('.matrix .revision')].map(it => it.innerText + (it.classList.contains('behind') ? '!' : '')).join()";

/// Opens the gate of what instances say of their nodes, which takes a restart.
async fn instances_say_their_revision(scene: &mut Scene) -> Tab {
    let mut before = scene.signed_in("chief").await;
    go(&mut before, "#/instances").await;
    before.until(&shows("shop")).await;
    scene.hub.kill();
    before
        .until(&shows("What you see is from before then"))
        .await;
    look(&mut before, "hub-away").await;
    drop(before);
    scene
        .hub
        .add_arguments(&["--feature-gates", "InstanceNodeStatus=true"]);
    scene.hub.launch().await;
    let mut tab = scene.signed_in("chief").await;
    tab.until(&tile("east", "ready")).await;
    go(&mut tab, "#/matrix").await;
    tab.until(&format!("{REVISIONS} === 'r1,r1,r1'")).await;
    go(&mut tab, "#/").await;
    tab
}

/// A revision reaches the clusters that can be reached at once, and the one that is away when it is back.
async fn the_matrix_follows_a_revision(scene: &mut Scene, tab: &mut Tab) {
    go(tab, "#/matrix").await;
    tab.until(&format!("{REVISIONS} === 'r1,r1,r1'")).await;
    let next = WEBAPP.replace("targetPort: 8080", "targetPort: 9090");
    assert_ne!(next, WEBAPP, "it is another definition");
    scene.hub.root().apply(&next).await;
    tab.until(&format!("{REVISIONS} === 'r1!,r2,r2'")).await;
    look(tab, "matrix-behind").await;
    scene.east.start_api().await;
    tab.until(&format!("{REVISIONS} === 'r2,r2,r2'")).await;
}

/// Opens the form of a preview at a route, which is filled in with `part` then.
async fn open_preview(tab: &mut Tab, route: &str, part: &str) {
    go(tab, route).await;
    tab.until("document.querySelector('.preview summary')")
        .await;
    tab.eval("document.querySelector('.preview summary').click()")
        .await;
    let area = "document.querySelector('.preview textarea')";
    tab.until(&format!("{area}.value.includes({})", json!(part)))
        .await;
}

/// Asks on the page of all definitions what a new one would do.
async fn a_new_definition_is_previewed(tab: &mut Tab) {
    open_preview(tab, "#/definitions", "kind: Example").await;
    tab.eval("document.querySelector('.preview form').requestSubmit()")
        .await;
    tab.until(&shows("0 to create")).await;
}

/// Asks on the page of a definition what a change of it would do.
async fn a_change_is_previewed(tab: &mut Tab) {
    open_preview(tab, "#/definitions/root/webapp", "targetPort: 8080").await;
    tab.eval("(it => { it.value = it.value.replace('targetPort: 8080', 'targetPort: 9090'); })(document.querySelector('.preview textarea'))")
        .await;
    tab.eval("document.querySelector('.preview form').requestSubmit()")
        .await;
    tab.until(&shows(".spec.ports[0].targetPort")).await;
    tab.until(&shows("Nothing is written.")).await;
    tab.screenshot("preview").await;
    accessible(tab, "preview").await;
    tab.eval("(it => { it.value = it.value.replace('schema.spec.message', 'nobody.spec'); })(document.querySelector('.preview textarea'))")
        .await;
    tab.eval("document.querySelector('.preview form').requestSubmit()")
        .await;
    tab.until(&shows("It would be refused.")).await;
}

/// What the schema of a CRD would not allow is said before what would be done, and so is how to have it all the same.
async fn a_change_that_breaks_is_previewed(tab: &mut Tab) {
    go(tab, "#/definitions").await;
    open_preview(tab, "#/definitions/root/webapp", "targetPort: 8080").await;
    tab.eval("(it => { it.value = it.value.replace(/( +)replicas: \"?integer/, '$1added: string | required=true\\n$&'); })(document.querySelector('.preview textarea'))")
        .await;
    tab.eval("document.querySelector('.preview form').requestSubmit()")
        .await;
    tab.until(&shows("Its CRD would be refused.")).await;
    is(tab, &shows("kro.run/allow-breaking-changes"), &json!(true)).await;
    tab.eval("(it => { it.value = 'hello: ['; })(document.querySelector('.preview textarea'))")
        .await;
    tab.eval("document.querySelector('.preview form').requestSubmit()")
        .await;
    tab.until(&shows("line 1, column")).await;
}

/// Its cause comes first, its events are told, and it has a row in the matrix. A kind that was refused later stays as it was.
async fn a_refused_definition_says_why(scene: &Scene, tab: &mut Tab) {
    let root = scene.hub.root();
    let broken = WEBAPP
        .replace("name: webapp", "name: broken")
        .replace("kind: WebApp", "kind: Broken")
        .replace("${schema.spec.message}", "${nobody.spec.message}");
    assert!(broken.contains("nobody"), "it is another one");
    root.apply(&broken).await;
    go(tab, "#/definitions/root/broken").await;
    tab.until("/nobody/.test(document.querySelector('.waits.error')?.textContent ?? '')")
        .await;
    // What was typed on the page of another definition is not in this one's form.
    let form = "[document.querySelector('.preview').open, document.querySelector('.preview textarea').value]";
    is(tab, form, &json!([false, ""])).await;
    let first = "document.querySelector('tbody td:nth-child(2)')?.innerText";
    tab.until(&format!("{first} === 'False'")).await;
    let event = "[...document.querySelectorAll('h2')].find((it) => it.textContent === 'Events')?.nextElementSibling?.textContent";
    tab.until(&format!("/nobody/.test({event} ?? '')")).await;
    look(tab, "definition-refused").await;
    go(tab, "#/matrix").await;
    tab.until(&shows("its kind is not served")).await;
    accessible(tab, "matrix with a refused definition").await;
    root.must(&["delete", "rgd", "broken"]).await;
    tab.until("!document.body.innerText.includes('its kind is not served')")
        .await;
    // The arrow keys are the table's as soon as its page is there.
    go(tab, "#/instances").await;
    tab.until(&shows("shop")).await;
    tab.eval("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown', bubbles: true}))")
        .await;
    tab.until("document.activeElement?.classList.contains('scroller')")
        .await;
    tab.eval("location.hash = '#/wat'").await;
    tab.until("document.title.startsWith('No such page')").await;
}

async fn strangers_are_let_in_by_a_good_token_alone(scene: &Scene) {
    let tab = &mut scene.signed_in("stolen").await;
    tab.until(&shows("does not accept this token")).await;
    tab.screenshot("sign-in").await;
    accessible(tab, "sign-in").await;
    is(
        tab,
        "sessionStorage.getItem('wheelhouse.token')",
        &json!(null),
    )
    .await;
    tab.eval("document.querySelector('#token').value = ''")
        .await;
    sign_in(tab, "chief").await;
    tab.until(&tile("east", "ready")).await;
    // Another tab is not signed in, and after the end this one is not either.
    let mut other = scene.browser.tab(800, 600).await;
    other
        .open(&format!("{}/ui/#/instances", scene.hub.server()))
        .await;
    other.until("document.querySelector('#token')").await;
    tab.eval(SIGN_OUT).await;
    tab.until("document.querySelector('#token')").await;
    is(
        tab,
        "sessionStorage.getItem('wheelhouse.token')",
        &json!(null),
    )
    .await;
}

/// An authorization code with PKCE, from the button to the page that was asked for; refusals; and codes of somebody else.
async fn people_sign_in_at_an_issuer(scene: &Scene) {
    let tab = &mut scene.browser.tab(1000, 700).await;
    let base = format!("{}/ui/", scene.hub.server());
    scene.issuer.sign_in_as(Value::Null);
    tab.open(&format!("{base}#/matrix")).await;
    let button = "document.querySelector('button.issuer')";
    tab.until(button).await;
    tab.screenshot("sign-in-issuer").await;
    accessible(tab, "sign-in at an issuer").await;
    tab.eval(&format!("{button}.click()")).await;
    tab.until(&shows("refused the sign-in: nobody of ours"))
        .await;
    is(tab, "location.search", &json!("")).await;
    scene.issuer.sign_in_as(json!({"sub": "alice"}));
    tab.until(button).await;
    tab.eval(&format!("{button}.click()")).await;
    tab.until("document.querySelector('.user')?.innerText === 'alice'")
        .await;
    // Where the person was going, and nothing of the sign-in is left but the token.
    is(tab, "location.search + location.hash", &json!("#/matrix")).await;
    is(
        tab,
        "Object.keys(sessionStorage).join()",
        &json!("wheelhouse.token"),
    )
    .await;
    tab.eval(SIGN_OUT).await;
    tab.until(button).await;
    // Somebody else's code is not taken: whoever sends a link would sign others in as himself.
    let other = &mut scene.browser.tab(1000, 700).await;
    other.open(&format!("{base}?code=code-1&state=x")).await;
    other.until(&shows("did not begin in this tab")).await;
    is(
        other,
        "sessionStorage.getItem('wheelhouse.token')",
        &json!(null),
    )
    .await;
    is_content(tab);
}

/// What somebody has changed in the cluster is told on the page of the instance.
async fn what_differs_is_told(scene: &Scene, tab: &mut Tab) {
    go(
        tab,
        "#/instances/webapps.v1alpha1.kro.run/east/default/shop",
    )
    .await;
    let open = "document.querySelector('details.preview summary')";
    tab.until(open).await;
    tab.eval(&format!("{open}.click()")).await;
    tab.until(&shows("Nothing differs.")).await;
    // What the hub would put right at once stays while the instance is suspended.
    let suspend = ["annotate", "webapp", "shop", "kro.run/reconcile=suspended"];
    scene.hub.at("east").must(&suspend).await;
    let replicas = ["scale", "deployment/shop", "--replicas=3"];
    scene.east.kubectl().must(&replicas).await;
    for _closed_and_open in 0..2 {
        tab.eval(&format!("{open}.click()")).await;
    }
    tab.until(&shows(".spec.replicas")).await;
    tab.screenshot("instance-differs").await;
    accessible(tab, "what differs").await;
    let go_on = ["annotate", "webapp", "shop", "kro.run/reconcile-"];
    scene.hub.at("east").must(&go_on).await;
}

async fn every_page_shows_what_is(scene: &Scene, tab: &mut Tab) {
    for name in ["east", "small", "other"] {
        tab.until(&tile(name, "ready")).await;
    }
    let paint = tab
        .eval("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
        .await;
    let weight = tab
        .eval("performance.getEntriesByType('resource').filter(it => it.name.includes('/ui/') && !it.name.includes('/ui/api/')).reduce((sum, it) => sum + it.encodedBodySize, 0)")
        .await;
    assets::tell(&format!(
        "view: first paint after {paint} ms, {weight} bytes of files"
    ));
    assert!(
        weight
            .as_u64()
            .is_some_and(|bytes| (1..=150 * 1024).contains(&bytes)),
        "{weight}"
    );
    look(tab, "fleet").await;
    go(tab, "#/definitions").await;
    tab.until(&shows("WebApp")).await;
    look(tab, "definitions").await;
    go(tab, "#/definitions/root/webapp").await;
    tab.until("document.querySelectorAll('.node').length === 4 && document.querySelectorAll('.edge').length === 3").await;
    look(tab, "definition").await;
    go(tab, "#/instances").await;
    tab.until("document.querySelectorAll('.row a').length === 3")
        .await;
    look(tab, "instances").await;
    go(tab, "#/instances?q=east").await;
    tab.until("document.querySelectorAll('.row a').length === 1")
        .await;
    go(
        tab,
        "#/instances/webapps.v1alpha1.kro.run/east/default/shop",
    )
    .await;
    tab.until("document.querySelectorAll('.node.good').length === 3")
        .await;
    tab.until(&shows("shop-config")).await;
    look(tab, "instance").await;
    go(
        tab,
        "#/instances/webapps.v1alpha1.kro.run/small/default/waiting",
    )
    .await;
    // No controller runs there: the Deployment is there and never ready, and the Service waits for it.
    tab.until("document.querySelector('.node.first[data-node=deployment]') && document.querySelector('.node.off[data-node=service]')").await;
    tab.until("document.querySelector('.waits')").await;
    look(tab, "instance-waiting").await;
    go(tab, "#/matrix").await;
    tab.until(&shows("0/1")).await;
    look(tab, "matrix").await;
    go(tab, "#/spokes/east").await;
    tab.until(&shows("Heartbeat")).await;
    tab.until(&shows("3 objects")).await;
    look(tab, "spoke").await;
    let foreign = tab
        .eval("performance.getEntriesByType('resource').map(it => it.name).filter(it => new URL(it).origin !== location.origin)")
        .await;
    assert_eq!(foreign, json!([]), "{}", scene.hub.server());
}

/// Takes pictures in light and dark, and looks for faults of accessibility.
async fn look(tab: &mut Tab, name: &str) {
    for scheme in ["dark", "light"] {
        tab.scheme(scheme).await;
        tab.screenshot(&format!("{name}-{scheme}")).await;
        accessible(tab, &format!("{name} in {scheme}")).await;
    }
}

/// Runs axe-core over the page, where it is installed.
async fn accessible(tab: &mut Tab, what: &str) {
    let Some(file) = assets::axe_core() else {
        return;
    };
    let script = std::fs::read_to_string(&file).expect("axe-core is text");
    if tab.eval("typeof window.axe").await == "undefined" {
        tab.eval(&format!("{script}\n;null")).await;
    }
    let found = tab
        .eval(&format!(
            "axe.run().then(it => it.violations.filter(v => {IMPACTS}.includes(v.impact)).map(v => [v.id, v.nodes.map(n => n.target + ': ' + n.failureSummary)]))"
        ))
        .await;
    if found != json!([]) {
        tab.faults.push(format!("{what}: {found:#}"));
    }
}

async fn what_changes_is_seen(scene: &Scene, tab: &mut Tab) {
    go(tab, "#/instances?sort=name").await;
    tab.until("document.querySelectorAll('.row a').length === 3")
        .await;
    tab.eval("window.stays = 1").await;
    scene
        .hub
        .at("east")
        .apply(&instance("later", "message: hello"))
        .await;
    let seen = tab
        .until("document.querySelectorAll('.row a').length === 4")
        .await;
    pods::make_ready(&scene.east.kubectl(), "later").await;
    tab.until("[...document.querySelectorAll('.row')].some(it => it.innerText.includes('later') && it.innerText.includes('Ready'))").await;
    scene
        .hub
        .at("east")
        .must(&["delete", "webapp", "later"])
        .await;
    tab.until("document.querySelectorAll('.row a').length === 3")
        .await;
    is(tab, "window.stays", &json!(1)).await;
    assets::tell(&format!(
        "view: a new instance was seen {seen:?} after its apply"
    ));
    // By keyboard alone: to the table, a row down, into it, and to the fleet.
    tab.eval("document.querySelector('.scroller').focus()")
        .await;
    tab.press("ArrowDown").await;
    tab.press("Enter").await;
    tab.until("document.querySelectorAll('.node').length === 4")
        .await;
    tab.press("g").await;
    tab.press("f").await;
    tab.until("document.querySelectorAll('.tile').length === 3")
        .await;
    tab.press("/").await;
    tab.insert("edge").await;
    tab.until("document.querySelectorAll('.tile').length === 1")
        .await;
    tab.eval("location.reload()").await;
    tab.until("document.querySelectorAll('.tile').length === 3 && !window.stays")
        .await;
    a_refused_definition_is_told(scene, tab).await;
}

/// A definition that does not compile is told where one looks first.
async fn a_refused_definition_is_told(scene: &Scene, tab: &mut Tab) {
    let root = scene.hub.root();
    root.apply(REFUSED).await;
    tab.until(&shows("1 definition inactive")).await;
    root.must(&["delete", "rgd", "refused"]).await;
    tab.until(&format!("!({})", shows("definition inactive")))
        .await;
}

/// Puts markup wherever the API takes text.
async fn plant(scene: &Scene) {
    let small = scene.hub.at("small");
    let uid = small
        .must(&["get", "webapp", "waiting", "-o", "jsonpath={.metadata.uid}"])
        .await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "hostile", "namespace": "default"},
        "involvedObject": {"kind": "WebApp", "namespace": "default", "name": "waiting", "uid": uid},
        "reason": HOSTILE, "message": HOSTILE, "type": "Warning",
    });
    small.apply(&event.to_string()).await;
    let note = format!("note={HOSTILE}");
    small.must(&["annotate", "webapp", "waiting", &note]).await;
    scene
        .hub
        .root()
        .must(&["annotate", "spoke", "small", &note])
        .await;
}

async fn nothing_foreign_runs(scene: &Scene, tab: &mut Tab) {
    plant(scene).await;
    let escaped = "%3Cimg%20src%3Dx%20onerror%3Dpwned%3D1%3E";
    for (route, place) in [
        (
            "#/instances/webapps.v1alpha1.kro.run/small/default/waiting".to_owned(),
            "document.querySelector('pre')?.textContent",
        ),
        (
            "#/instances/webapps.v1alpha1.kro.run/small/default/waiting".to_owned(),
            "document.querySelector('.columns-two')?.textContent",
        ),
        (
            "#/spokes/small".to_owned(),
            "document.querySelector('pre')?.textContent",
        ),
        (
            format!("#/spokes/{escaped}"),
            "document.querySelector('h1')?.textContent",
        ),
        (
            format!("#/definitions/root/{escaped}"),
            "document.querySelector('h1')?.textContent",
        ),
        (
            format!("#/instances/a.b.c/{escaped}/x/{escaped}"),
            "document.querySelector('h1')?.textContent",
        ),
        (
            format!("#/instances?q={escaped}"),
            "document.querySelector('.search')?.value",
        ),
    ] {
        go(tab, &route).await;
        tab.until(&format!("{place}?.includes('<img src=x onerror=pwned=1>')"))
            .await;
        is(
            tab,
            "document.querySelectorAll('#app img, #app script').length",
            &json!(0),
        )
        .await;
    }
    // What the policy forbids is tried, too.
    let tried = tab
        .eval("(() => { try { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=pwned=1>'); return 'taken' } catch (error) { return error.name } })()")
        .await;
    assert_eq!(tried, "TypeError", "text becomes no markup");
    let tried = tab
        .eval("(() => { const it = document.createElement('script'); try { it.text = 'pwned=1' } catch (error) { return error.name } document.body.append(it); return 'taken' })()")
        .await;
    assert_eq!(tried, "TypeError", "text becomes no script");
    is(tab, "typeof pwned", &json!("undefined")).await;
    // Those two were ours; a fresh tab must have nothing to complain of.
    *tab = scene.signed_in("chief").await;
    tab.until(&tile("east", "ready")).await;
}

/// Lets alice into the cluster `small`, to read instances there and nothing else.
async fn grant(scene: &Scene) {
    let root = scene.hub.root();
    root.must(&[
        "create",
        "clusterrole",
        "into-small",
        "--verb=access",
        "--resource=spokes.wheelhouse.dev",
        "--resource-name=small",
    ])
    .await;
    root.must(&[
        "create",
        "clusterrolebinding",
        "alice",
        "--clusterrole=into-small",
        "--user=alice",
    ])
    .await;
    let small = scene.hub.at("small");
    small
        .must(&[
            "create",
            "clusterrole",
            "webapps",
            "--verb=get,list,watch",
            "--resource=webapps.kro.run",
        ])
        .await;
    small
        .must(&[
            "create",
            "clusterrolebinding",
            "alice",
            "--clusterrole=webapps",
            "--user=alice",
        ])
        .await;
}

async fn a_tenant_sees_its_own(scene: &Scene) {
    grant(scene).await;
    let tab = &mut scene.signed_in("alice").await;
    tab.until(&tile("small", "hidden")).await;
    is(tab, "document.querySelectorAll('.tile').length", &json!(1)).await;
    tab.screenshot("tenant-fleet").await;
    go(tab, "#/instances").await;
    tab.until("document.querySelectorAll('.row a').length === 1")
        .await;
    let row = tab.eval("document.querySelector('.row').innerText").await;
    assert!(
        row.as_str().is_some_and(|row| row.contains("small")),
        "{row}"
    );
    tab.screenshot("tenant-instances").await;
    go(
        tab,
        "#/instances/webapps.v1alpha1.kro.run/small/default/waiting",
    )
    .await;
    // What the tenant may not read is said where it would stand, and the rest is there.
    tab.until(&shows("You may not read")).await;
    tab.until(&shows("GraphResolved")).await;
    tab.screenshot("tenant-instance").await;
    go(
        tab,
        "#/instances/webapps.v1alpha1.kro.run/east/default/shop",
    )
    .await;
    tab.until(&shows("You may not read shop")).await;
    go(tab, "#/spokes/east").await;
    tab.until(&shows("You see no spoke of this name")).await;
    is_content(tab);
    nobody_sees_nothing(scene).await;
}

async fn nobody_sees_nothing(scene: &Scene) {
    let nobody = &mut scene.signed_in("nobody").await;
    nobody
        .until("document.querySelector('h1')?.innerText === 'Fleet'")
        .await;
    nobody.until(&shows("You see no spokes")).await;
    is(
        nobody,
        "document.querySelectorAll('.tile').length",
        &json!(0),
    )
    .await;
}

async fn a_spoke_that_stops_turns_its_tile(scene: &mut Scene, tab: &mut Tab) {
    go(tab, "#/").await;
    tab.until(&tile("east", "ready")).await;
    scene.east.stop_api();
    let turned = tab.until(&tile("east", "unreachable")).await;
    assets::tell(&format!(
        "view: the tile turned {turned:?} after the spoke stopped"
    ));
    let first = tab
        .eval("document.querySelector('.tile').dataset.spoke")
        .await;
    assert_eq!(first, "east", "trouble first");
    look(tab, "fleet-trouble").await;
    // The story: what was drawn for no instances at all was as high as a page without spokes.
    let heights = "[...document.querySelectorAll('.tile .bar')].map((it) => it.offsetHeight)";
    tab.until(&format!(
        "{heights}.length === 3 && Math.max(...{heights}) < 10"
    ))
    .await;
    go(tab, "#/spokes/east").await;
    let event = "[...document.querySelectorAll('h2')].find((it) => it.textContent === 'Events')?.nextElementSibling?.textContent";
    tab.until(&format!("/NoAnswer/.test({event} ?? '')")).await;
    the_matrix_follows_a_revision(scene, tab).await;
    go(tab, "#/").await;
    tab.until(&tile("east", "ready")).await;
}
