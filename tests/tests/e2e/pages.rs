//! The commands of all pages, typed as they stand. `docs/quickstart.md` has a trial of its own, which also compares what is printed.
//!
//! [`WAYS`] says of each command how it is tried. A command without a line there fails the trial, and so does a line without a command.

use std::{
    collections::BTreeSet,
    os::unix::fs::{MetadataExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use wheelhouse_tests::{
    Kubectl, Spoke, assets, eventually,
    process::{Process, Scratch},
    typed::{self, Shell},
};

/// How a command is tried.
#[derive(Clone, Copy)]
enum Way {
    /// It is typed, after these replacements, and succeeds.
    Typed(&'static [(&'static str, &'static str)]),
    /// It is typed, after these replacements, by root, where systemd's programs are installed.
    Systemd(&'static [(&'static str, &'static str)]),
    /// It is typed, and ends with 1, as its page says.
    Fails,
    /// The program takes its arguments: another trial runs it with ones like them.
    Taken(&'static [(&'static str, &'static str)]),
    /// A function of another trial runs it: its file, its name, and words of the command that stand in it.
    In(&'static str, &'static str, &'static str),
    /// It is a script of the repository, which has a time of its own.
    Script,
    /// Nothing here can run it.
    Not(&'static str),
}

use Way::{Fails, In, Not, Script, Systemd, Taken, Typed};

/// What has no files here.
const NO_FILES: &[(&str, &str)] = &[(" ...", "")];
const CHART: Way = In("real_clients/chart.rs", "installs(", "install");
/// A folder takes the place of the machine: another systemd, or none, runs here. deploy.rs starts the hub with the unit's arguments.
const UNIT: Way = Systemd(&[
    (
        " wheelhouse /usr/local/bin/",
        " bin/wheelhouse -D -t machine/usr/local/bin/",
    ),
    (
        " /etc/systemd/system/",
        " -D -t machine/etc/systemd/system/",
    ),
    (" /etc/sysusers.d/", " -D machine/etc/sysusers.d/"),
    ("systemd-sysusers", "systemd-sysusers --root=machine"),
    (" /etc/wheelhouse", " machine/etc/wheelhouse"),
    (
        "systemctl daemon-reload && systemctl enable --now",
        "systemctl --root=machine enable",
    ),
]);

/// The pages, and how their commands, told by how they begin, are tried.
const WAYS: &[(&str, &[(&str, Way)])] = &[
    (
        "README.md",
        &[
            (
                "cargo run --release -- dev",
                In("e2e/dev.rs", "dev_brings_the_demo_up", "\"dev\""),
            ),
            (
                "cargo run --release -- serve",
                Taken(&[("cargo run --release --", "wheelhouse")]),
            ),
            ("export KUBECONFIG=$PWD/hub.kubeconfig", Typed(&[])),
            (
                "target/release/wheelhouse spoke add east",
                Typed(&[("target/release/", ""), ("~/.kube/", "")]),
            ),
            (
                "target/release/wheelhouse fleet",
                Typed(&[("target/release/", "")]),
            ),
            ("kubectl apply -f cli/src/dev/demo.yaml", Typed(&[])),
            (
                "kubectl --server=https://127.0.0.1:6443/clusters/east apply",
                In("e2e/deploy.rs", "readme", "\"apply\""),
            ),
            ("hack/test", Script),
        ],
    ),
    (
        "docs/definitions.md",
        &[
            (
                "kubectl --context spoke-1 get webapp demo",
                Typed(&[("spoke-1", "east")]),
            ),
            ("wheelhouse rgd preview web.yaml", Fails),
            ("echo $?", Typed(&[])),
            ("wheelhouse rgd validate app.yaml", Fails),
        ],
    ),
    (
        "docs/kro.md",
        &[
            ("kubectl patch spoke west", Typed(&[])),
            ("kubectl explain spoke.spec.kro", Typed(&[])),
            ("wheelhouse spoke add east", Typed(&[])),
            (
                "kubectl --kubeconfig east.config -n kro-system scale",
                Typed(&[]),
            ),
            (
                "wheelhouse spoke migrate east --yes",
                In("e2e/migrated.rs", "takes_over(", "--yes"),
            ),
            ("wheelhouse spoke migrate east --back", Typed(&[])),
            ("wheelhouse spoke migrate east", Typed(&[])),
            ("kubectl patch spoke east", Typed(&[])),
            (
                "kubectl wait spoke/east",
                In("e2e/migrated.rs", "takes_over(", "condition=Migrated"),
            ),
            ("wheelhouse rgd lint many.yaml", Fails),
            ("hack/differential-kro", Script),
            ("WHEELHOUSE_SCENARIO=instance hack/differential-kro", Script),
            (
                "WHEELHOUSE_AT_ONCE=8 WHEELHOUSE_SLOWED=4 hack/differential-kro",
                Script,
            ),
            ("hack/kro-suite", Script),
        ],
    ),
    (
        "docs/fleet-view.md",
        &[
            ("wheelhouse serve", Taken(NO_FILES)),
            ("ln -s", Typed(&[("~/.local/bin", "bin")])),
            ("kubectl wheelhouse fleet", Typed(&[])),
        ],
    ),
    (
        "docs/troubleshooting.md",
        &[
            ("wheelhouse fleet", Typed(&[])),
            ("kubectl get spoke east", Typed(&[])),
            (
                "kubectl --context east get site hello",
                Typed(&[("site hello", "webapp demo")]),
            ),
            (
                "kubectl --context west annotate colors shop",
                Typed(&[(
                    "--context west annotate colors shop",
                    "--context east annotate webapp demo --overwrite",
                )]),
            ),
            (
                "kubectl delete validatingwebhookconfiguration guard",
                Typed(&[]),
            ),
        ],
    ),
    (
        "docs/spokes.md",
        &[
            (
                "kubectl annotate webapp shop",
                Typed(&[
                    (
                        "annotate webapp shop",
                        "--context east annotate webapp demo --overwrite",
                    ),
                    ("<outcome>", "0"),
                ]),
            ),
            ("kubectl annotate rgd webapp", Typed(&[("<outcome>", "0")])),
        ],
    ),
    ("docs/audit.md", &[("wheelhouse serve", Taken(&[]))]),
    (
        "docs/authentication.md",
        &[("kubectl create --raw", Typed(&[]))],
    ),
    (
        "docs/etcd.md",
        &[
            (
                "wheelhouse serve --data-dir /var/lib/wheelhouse",
                Taken(&[]),
            ),
            ("kubectl get leases -n kube-system", Typed(&[])),
            ("wheelhouse syncer --hub", Taken(&[])),
            (
                "etcdctl compact",
                In("real_clients/etcdctl.rs", "makes_space(", "\"compact\""),
            ),
            (
                "etcdctl defrag",
                In("real_clients/etcdctl.rs", "makes_space(", "\"defrag\""),
            ),
        ],
    ),
    (
        "docs/operations.md",
        &[
            (
                "podman build",
                Not("no registry is here; hack/image builds and runs the same binary"),
            ),
            ("helm install", CHART),
            ("install -m", UNIT),
            ("mkdir -p /etc/wheelhouse", UNIT),
            ("systemctl", UNIT),
            (
                "wheelhouse spoke list",
                Typed(&[("/run/wheelhouse/admin.kubeconfig", "hub.kubeconfig")]),
            ),
            ("wheelhouse serve", Taken(NO_FILES)),
            (
                "mkdir -m 700 NEW",
                Typed(&[("NEW", "LOST"), ("KEYS", "DATA")]),
            ),
            (
                "wheelhouse store restore --from hub.backup --data-dir NEW --suspend-spokes",
                Typed(&[("NEW", "LOST"), ("hub.backup", "lost.backup")]),
            ),
            ("wheelhouse store backup", Typed(&[])),
            (
                "kubectl exec wheelhouse-0",
                In("e2e/deploy.rs", "executed", "\"store\", \"backup\""),
            ),
            (
                "wheelhouse store restore --from hub.backup --data-dir NEW",
                Typed(&[]),
            ),
            ("kubectl get spoke east", Typed(&[])),
            (
                "wheelhouse store confirm-restore",
                In("e2e/restored.rs", "confirm(", "confirm-restore"),
            ),
            (
                "wheelhouse store finish-restore",
                In("e2e/restored.rs", "settled(", "finish-restore"),
            ),
            ("(umask 077; echo \"k2026:", Typed(&[])),
            ("wheelhouse store check", Typed(&[("DATA", "NEW")])),
            ("kubectl get --raw /debug/users", Typed(&[])),
            ("echo 'info,wheelhouse_syncer=debug'", Typed(&[])),
            ("kubectl replace --raw /debug/flags/log", Typed(&[])),
        ],
    ),
    (
        "docs/aggregation.md",
        &[
            ("wheelhouse serve", Taken(&[])),
            (
                "kubectl get apiservices",
                In("../src/host.rs", "available", "\"apiservice\""),
            ),
            (
                "wheelhouse spoke argo-cd",
                In(
                    "real_clients/argo_host.rs",
                    "secrets",
                    "\"spoke\", \"argo-cd\"",
                ),
            ),
        ],
    ),
    (
        "deploy/argo-cd/README.md",
        &[
            (
                "kubectl --kubeconfig hub.kubeconfig",
                In("e2e/deploy.rs", "argo_cd", "argo-cd/access.yaml"),
            ),
            (
                "wheelhouse spoke argo-cd",
                In("e2e/deploy.rs", "cluster_secret", "\"spoke\", \"argo-cd\""),
            ),
            (
                "kubectl apply -f clusters.yaml",
                In("e2e/quickstart.rs", "enter_argo_cd(", "applicationset.yaml"),
            ),
        ],
    ),
];

/// Pages whose commands are tried elsewhere, or that have none to be typed.
const OTHERS: [&str; 2] = ["docs/quickstart.md", "docs/benchmarks.md"];

/// A definition that is refused, as `docs/definitions.md` and `docs/kro.md` show it.
const REFUSED: &str = "apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: app}
spec:
  schema: {apiVersion: v1alpha1, kind: App}
  resources:
  - id: item
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: '${schema.metadata.name}'}
      data: {text: '${schema.spec.nope}'}
";

const DEMO: &str = include_str!("../../../cli/src/dev/demo.yaml");
const WEST: &str = "{apiVersion: wheelhouse.dev/v1alpha1, kind: Spoke, metadata: {name: west}, spec: {provider: Embedded}}";
const GUARD: &str = r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "guard"}}"#;

#[test]
fn every_page_is_known() {
    let mut known: BTreeSet<String> = WAYS.iter().map(|(page, _)| (*page).to_owned()).collect();
    known.extend(OTHERS.map(str::to_owned));
    let folder = assets::workspace().join("docs");
    let pages = std::fs::read_dir(folder).expect("there are docs");
    for page in pages {
        let file = page.expect("it can be listed").path();
        if file.extension().is_none_or(|it| it != "md") {
            continue;
        }
        let name = file.file_name().expect("it has one").to_string_lossy();
        let text = std::fs::read_to_string(&file).expect("it is text");
        let page = format!("docs/{name}");
        let commands = typed::commands(&text);
        assert!(
            known.contains(&page) || commands.is_empty(),
            "{page}: {commands:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_every_page_is_tried() {
    let mut reader = Reader::start().await;
    let mut failed = Vec::new();
    for (page, ways) in WAYS {
        let text = std::fs::read_to_string(assets::workspace().join(page)).expect("a page");
        let mut left: BTreeSet<&str> = ways.iter().map(|(begin, _)| *begin).collect();
        for command in typed::commands(&text) {
            let way = ways.iter().find(|(begin, _)| command.starts_with(begin));
            let Some((begin, way)) = way else {
                failed.push(format!("{page}: nothing tries: {command}"));
                continue;
            };
            left.remove(begin);
            if let Err(error) = reader.try_it(&command, *way).await {
                failed.push(format!("{page}: {command}\n{error}"));
            }
        }
        failed.extend(left.iter().map(|begin| format!("{page} has no {begin}")));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Somebody who types what the pages say.
struct Reader {
    shell: Shell,
    /// How the command before it ended.
    code: String,
    _folder: Scratch,
    _hub: Process,
    _east: Spoke,
}

/// Puts the files that the pages name into a folder. Returns the one of programs.
fn prepare(folder: &Scratch, east: &Spoke) -> PathBuf {
    let programs = folder.file("bin");
    std::fs::create_dir(&programs).expect("a folder");
    let link = |from: &Path, name: &str| {
        symlink(from, folder.file(name)).expect("a link can be made");
    };
    link(assets::wheelhouse(), "bin/wheelhouse");
    for name in ["deploy", "cli"] {
        link(&assets::workspace().join(name), name);
    }
    let config = std::fs::read(east.kubeconfig()).expect("it is there");
    folder.write("east.config", config);
    for name in ["app.yaml", "many.yaml"] {
        folder.write(name, REFUSED);
    }
    let field = "message: string";
    let changed = DEMO.replace(
        field,
        &format!("text: string | default=\"\"\n      {field}"),
    );
    folder.write("web.yaml", changed);
    programs
}

/// Makes the instance that the pages look at, and waits until its state is told.
async fn instance(root: &Kubectl) {
    let file = assets::workspace().join("deploy/example/webapp.yaml");
    let file = file.display().to_string();
    eventually("the demo is taken in east", || async {
        root.run(&["--context", "east", "apply", "-f", &file])
            .await
            .ok()
    })
    .await;
    let state = [
        "--context",
        "east",
        "get",
        "webapp",
        "demo",
        "-o",
        "jsonpath={.status.state}",
    ];
    eventually("its state is told", || async {
        let state = root.run(&state).await.ok()?;
        (!state.is_empty()).then_some(()).ok_or(state)
    })
    .await;
}

// === impl Reader ===

impl Reader {
    /// Starts a hub with an embedded cluster, and puts there what the pages are about.
    async fn start() -> Self {
        let folder = Scratch::new("pages");
        let east = Spoke::start("east").await;
        let programs = prepare(&folder, &east);
        let mut command = Command::new(assets::wheelhouse());
        command
            .args(["serve", "--data-dir", "DATA", "--listen", "127.0.0.1:0"])
            .args(["--kubeconfig-out", "hub.kubeconfig"])
            .current_dir(folder.path());
        let hub = Process::start(&command, &folder.file("hub.log"));
        let root = Kubectl::new(&folder.file("hub.kubeconfig"));
        eventually("the hub is ready", || async {
            assert!(hub.runs(), "{}", hub.log());
            root.run(&["get", "--raw", "/readyz"]).await.ok()
        })
        .await;
        root.apply(WEST).await;
        root.apply(DEMO).await;
        root.apply(GUARD).await;
        let direct = east.kubectl();
        direct.must(&["create", "namespace", "kro-system"]).await;
        let kro = [
            "create",
            "deployment",
            "kro",
            "--image=kro",
            "--namespace=kro-system",
        ];
        direct.must(&kro).await;
        let mut shell = Shell::start(folder.path(), &[&programs, assets::folder()]);
        for command in [
            "export KUBECONFIG=$PWD/hub.kubeconfig",
            "wheelhouse spoke add east --from east.config --wait",
            "wheelhouse store backup --out lost.backup",
        ] {
            shell.must(command).await;
        }
        instance(&root).await;
        Self {
            shell,
            code: String::new(),
            _folder: folder,
            _hub: hub,
            _east: east,
        }
    }

    async fn try_it(&mut self, command: &str, way: Way) -> Result<(), String> {
        let replaced = |replacements: &[(&str, &str)]| {
            let replace = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
            replacements.iter().fold(command.to_owned(), replace)
        };
        match way {
            Typed(replacements) => self.ends(&replaced(replacements), "0").await,
            Systemd(replacements) => {
                if std::fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0)
                    && Path::new("/usr/bin/systemd-sysusers").exists()
                {
                    return self.ends(&replaced(replacements), "0").await;
                }
                assets::tell(&format!("not run, without systemd or root: {command}"));
                Ok(())
            }
            Fails => self.ends(command, "1").await,
            Taken(replacements) => {
                let command = replaced(replacements);
                self.ends(&format!("{command} --help"), "0").await
            }
            In(file, function, words) => {
                let path = assets::workspace().join("tests/tests").join(file);
                let text = std::fs::read_to_string(path);
                let text = text.map_err(|error| format!("{file}: {error}"))?;
                let (before, after) = text
                    .split_once(&format!("fn {function}"))
                    .ok_or_else(|| format!("{file} has no {function}"))?;
                let line = before.rsplit('\n').next().unwrap_or_default();
                let indent = line.len() - line.trim_start().len();
                let end = format!("\n{}}}\n", " ".repeat(indent));
                let body = after.split_once(&end).map(|it| it.0);
                let runs = body.is_some_and(|it| it.contains(words));
                runs.then_some(())
                    .ok_or_else(|| format!("no {words} in {function} of {file}"))
            }
            Script => {
                let path = command
                    .split_whitespace()
                    .find(|it| it.starts_with("hack/"));
                let path = assets::workspace().join(path.unwrap_or_default());
                path.is_file()
                    .then_some(())
                    .ok_or_else(|| "no such script".to_owned())
            }
            Not(why) => {
                assets::tell(&format!("not run: {command}: {why}"));
                Ok(())
            }
        }
    }

    /// Types a command, after one that ended as `$?` says, and looks how it ends.
    async fn ends(&mut self, command: &str, code: &str) -> Result<(), String> {
        let before = self.shell.errors().len();
        let command = command.replace("$?", &self.code);
        let typed = self.shell.run(&command).await;
        self.code.clone_from(&typed.code);
        if typed.code == code {
            return Ok(());
        }
        let errors = self.shell.errors();
        Err(format!(
            "{typed:?}\n{}",
            errors.get(before..).unwrap_or_default()
        ))
    }
}
