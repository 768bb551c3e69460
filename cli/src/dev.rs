//! `wheelhouse dev`: a hub with embedded spokes, the simulator on, and a demo.

mod demo;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use client::{Answer, Dynamic, Endpoint, Force, Patch};
use serde_json::{Value, json};

use crate::{args, connect, kubeconfig, output, serve};

/// Who the simulator is: audit records and managed fields tell it from users.
const SIMULATOR: &str = "system:wheelhouse:simulator";

/// Runs until it is told to stop.
pub(crate) async fn run(arguments: args::Dev) -> Result<()> {
    let dir = &arguments.dir;
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
    let mut switches = arguments.kro.switches();
    switches.gates.node_status.get_or_insert(true);
    let controllers = serve::Controllers {
        switches,
        ..serve::Controllers::default()
    };
    let running = serve::start(config, arguments.listen, controllers).await?;
    let hub = Dynamic::new(running.client(api::wheelhouse::keys::USER_SYNCER));
    let names: Vec<String> = (1..=arguments.spokes)
        .map(|n| format!("spoke-{n}"))
        .collect();
    for name in &names {
        apply(&hub, &embedded_spoke(name)).await?;
    }
    for name in &names {
        demo::ready(&hub, &connect::spokes(), None, None, name).await?;
    }
    let clusters: Vec<api::LogicalCluster> = names.iter().filter_map(|n| n.parse().ok()).collect();
    simulator::start(&running.client(SIMULATOR), &clusters, &running.tasks);
    let file = arguments
        .kubeconfig_out
        .unwrap_or_else(|| dir.join("kubeconfig"));
    if !arguments.no_demo {
        demo::apply(&hub, &names).await?;
    }
    kubeconfig::publish(&running.kubeconfig(), &file)?;
    greet(&running, &file, &names, !arguments.no_demo)?;
    // The browser keeps what follows the # to itself.
    output::line(&format!(
        "\nThe fleet view, signed in as admin until dev ends:\n\n{}/ui/#token={}\n\n\
         Ctrl-C ends it; the data stays in the directory.",
        running.server,
        token.expose()
    ))?;
    running.until_stopped().await
}

fn embedded_spoke(name: &str) -> Value {
    json!({
        "apiVersion": api::wheelhouse::API_VERSION,
        "kind": api::wheelhouse::SPOKE_KIND,
        "metadata": {"name": name},
        "spec": {"provider": "Embedded"},
    })
}

/// Applies an object of root.
async fn apply(hub: &Dynamic, object: &Value) -> Result<()> {
    let gvr = match api::meta::kind(object) {
        api::wheelhouse::SPOKE_KIND => connect::spokes(),
        _ => demo::definitions(),
    };
    let endpoint = Endpoint {
        scope: None,
        gvr,
        namespace: None,
    };
    apply_at(hub, &endpoint, object).await
}

async fn apply_at(hub: &Dynamic, endpoint: &Endpoint, object: &Value) -> Result<()> {
    let patch = Patch::Apply {
        manager: api::wheelhouse::keys::MANAGER_CLI,
        force: Force::Yes,
        object,
        answer: Answer::Metadata,
    };
    let name = api::meta::name(object);
    hub.patch(endpoint, name, None, patch)
        .await
        .with_context(|| format!("{} {name}", api::meta::kind(object)))?;
    Ok(())
}

fn greet(running: &serve::Running, file: &Path, names: &[String], demo: bool) -> Result<()> {
    let file: PathBuf = file.to_owned();
    let first = names.first().map_or("spoke-1", String::as_str);
    output::line(&format!(
        "Wheelhouse is ready at {}, with {} embedded spokes. Type, in another terminal:\n",
        running.server,
        names.len()
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
