//! `wheelhouse dev`: a hub with embedded spokes, the simulator on, and a demo.

mod demo;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use apiserver::LogFilter;
use client::{Answer, Dynamic, Endpoint, Force, Patch};
use serde_json::{Value, json};

use crate::{args, connect, output, serve};

/// How long the last hub's deletion of a spoke may go on when this one starts, and between two looks at it.
const DELETION_PATIENCE: Duration = Duration::from_secs(10);
const DELETION_INTERVAL: Duration = Duration::from_millis(100);

/// Who the simulator is: audit records and managed fields tell it from users.
const SIMULATOR: &str = "system:wheelhouse:simulator";

/// Runs until it is told to stop.
pub(crate) async fn run(arguments: args::Dev, log: Arc<dyn LogFilter>) -> Result<()> {
    let dir = &arguments.dir;
    let is_new = !dir.exists();
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let mut config = apiserver::Config::new(dir.join("data"));
    config.dialer = spokes::Dialer::new(spokes::Policy {
        kubeconfig_files: arguments.kubeconfig_files.clone(),
        // It is the developer's own, as with kubectl.
        plugin_variables: vec!["*".to_owned()],
        ..spokes::Policy::default()
    });
    let token = apiserver::AdminToken::random();
    config.admin_token = Some(token.clone());
    config.log_filter = Some(log);
    let mut switches = arguments.kro.switches();
    switches.gates.node_status.get_or_insert(true);
    let controllers = serve::Controllers {
        switches,
        ..serve::Controllers::default()
    };
    let started = serve::start(config, arguments.listen, controllers).await;
    if started.is_err() && is_new {
        // Only where nothing is in it.
        drop(std::fs::remove_dir(dir));
    }
    let running = started?;
    let hub = Dynamic::new(running.client(api::wheelhouse::keys::USER_SYNCER));
    let names: Vec<String> = (1..=arguments.spokes)
        .map(|n| format!("spoke-{n}"))
        .collect();
    let Embedded { names, new } = embed(&hub, names).await?;
    for name in &names {
        demo::ready(&hub, &connect::spokes(), None, None, name).await?;
    }
    if !arguments.no_simulator {
        simulator::start(running.client(SIMULATOR), &running.tasks);
    }
    let file = arguments
        .kubeconfig_out
        .unwrap_or_else(|| dir.join("kubeconfig"));
    if !arguments.no_demo {
        demo::make(&hub, &new, !arguments.no_simulator).await?;
    }
    let has_demo = demo::is_there(&hub).await?;
    running.publish_kubeconfig(&file)?;
    greet(&running, &file, &names, has_demo)?;
    // The browser keeps what follows the # to itself.
    output::line(&format!(
        "\nThe fleet view, signed in as admin until dev ends:\n\n{}/ui/#token={}\n\n\
         Ctrl-C ends it; the data stays in the directory.",
        running.server,
        token.expose()
    ))?;
    running.until_stopped().await
}

/// The embedded clusters that there are.
struct Embedded {
    names: Vec<String>,
    /// Those that were not there before.
    new: Vec<String>,
}

/// Makes embedded clusters. One that is being deleted, and waits for somebody, is left alone.
async fn embed(hub: &Dynamic, names: Vec<String>) -> Result<Embedded> {
    let endpoint = connect::spokes_endpoint();
    let (mut made, mut new) = (Vec::new(), Vec::new());
    for name in names {
        let before = hub.get(&endpoint, &name).await;
        if before.is_err_and(|error| error.is_not_found()) {
            new.push(name.clone());
        }
        let end = tokio::time::Instant::now() + DELETION_PATIENCE;
        loop {
            let spoke = apply(hub, &endpoint, &embedded_spoke(&name)).await?;
            if !api::meta::is_terminating(&spoke) {
                made.push(name);
                break;
            }
            if tokio::time::Instant::now() > end {
                let spoke = hub.get(&endpoint, &name).await;
                let status = spoke.map(|spoke| spoke["status"]["message"].clone());
                let status = status.unwrap_or_default();
                output::note(&format!(
                    "spoke {name} is being deleted: {}",
                    status.as_str().unwrap_or_default()
                ));
                break;
            }
            tokio::time::sleep(DELETION_INTERVAL).await;
        }
    }
    Ok(Embedded { names: made, new })
}

fn embedded_spoke(name: &str) -> Value {
    json!({
        "apiVersion": api::wheelhouse::API_VERSION,
        "kind": api::wheelhouse::SPOKE_KIND,
        "metadata": {"name": name},
        "spec": {"provider": "Embedded"},
    })
}

/// Applies an object. Returns its metadata.
async fn apply(hub: &Dynamic, endpoint: &Endpoint, object: &Value) -> Result<Value> {
    let patch = Patch::Apply {
        manager: api::wheelhouse::keys::MANAGER_CLI,
        force: Force::Yes,
        object,
        answer: Answer::Metadata,
    };
    let name = api::meta::name(object);
    hub.patch(endpoint, name, None, patch)
        .await
        .with_context(|| format!("{} {name}", api::meta::kind(object)))
}

fn greet(running: &serve::Running, file: &Path, names: &[String], demo: bool) -> Result<()> {
    let file: PathBuf = file.to_owned();
    let first = names.first().map_or("spoke-1", String::as_str);
    output::line(&format!(
        "Wheelhouse is ready at {}, with {} embedded {}. Type, in another terminal:\n",
        running.server,
        names.len(),
        if names.len() == 1 { "spoke" } else { "spokes" }
    ))?;
    let export = match std::path::absolute(&file) {
        Ok(absolute) => absolute,
        Err(_) => file,
    };
    let mut lines = vec![
        format!("export KUBECONFIG='{}'", export.display()),
        "kubectl get spokes".to_owned(),
        format!("kubectl --context {first} api-resources"),
    ];
    if demo {
        lines.push("kubectl get rgd".to_owned());
        for name in names {
            lines.push(format!("kubectl --context {name} get webapps"));
        }
        lines.push(format!("kubectl --context {first} get all"));
        lines.push(format!("kubectl --context {first} explain webapp.spec"));
        lines.push(format!(
            "kubectl --context {first} patch webapp demo --type merge -p '{{\"spec\":{{\"replicas\":3}}}}'"
        ));
        lines.push(format!(
            "kubectl --context {first} wait --for=condition=Ready webapp/demo --timeout=30s"
        ));
    }
    for text in lines {
        output::line(&format!("  {text}"))?;
    }
    Ok(())
}
