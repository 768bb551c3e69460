//! `wheelhouse rgd`: work on ResourceGraphDefinitions; without a cluster, but for [`preview`].

mod kinds;
pub(crate) mod preview;
mod source;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use api::{
    GroupVersionKind, crd::CustomResourceDefinition, field::FieldPath, kro, kro::RgdSpec, meta,
};
use clap::{Args, Subcommand, ValueEnum};
use dialect::yaml::{self, Aliases};
use graph::{CompiledGraph, ResolvedKind};
use serde_json::{Value, json};
use ui::drawing::Drawing;

use self::kinds::Kinds;
use crate::{connect, output};

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Rgd {
    /// Compile the definitions of files, and point out what is allowed and often not meant.
    ///
    /// Definitions may use the built-in kinds, the kinds that other definitions of the same call generate, and
    /// CustomResourceDefinitions of the files and of `--schemas`. Exits with 1 where one is refused.
    Lint(Files),
    /// Compile the definitions of files. Exits with 1 where one is refused.
    Validate(Files),
    /// Ask a hub what definitions would do to its fleet if they were applied: which clusters, instances and objects would change,
    /// and what would break. Nothing is written.
    ///
    /// Exits with 0 where nothing would change, with 1 where something would, and with 2 where a definition is refused or cannot be
    /// previewed.
    Preview(preview::Asked),
    /// Like `preview`, but print only the objects that would change, field by field.
    Diff(preview::Asked),
    /// Draw the graph of a definition.
    Graph {
        #[command(flatten)]
        files: Files,
        /// The definition, by name, where the files have several.
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// How it is written.
        #[arg(short, long, value_enum, default_value_t = Picture::Mermaid)]
        output: Picture,
    },
}

/// How a graph is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Picture {
    /// A flowchart for Markdown.
    Mermaid,
    /// The DOT language of Graphviz.
    Dot,
    /// A picture.
    Svg,
}

/// Definitions, and what they are compiled against.
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// YAML files with ResourceGraphDefinitions; other objects are ignored.
    #[arg(required = true, value_name = "FILE")]
    paths: Vec<PathBuf>,
    /// A directory of CustomResourceDefinitions that the definitions use.
    #[arg(long, value_name = "DIR")]
    schemas: Option<PathBuf>,
    /// The kubeconfig of a cluster whose CustomResourceDefinitions the definitions use; without it, none is asked.
    #[arg(long, value_name = "F")]
    kubeconfig: Option<PathBuf>,
    /// The context in it; by default its current one.
    #[arg(long, value_name = "C", requires = "kubeconfig")]
    context: Option<String>,
    #[command(flatten)]
    gates: crate::kro::Gates,
}

/// A definition and the file that it stands in.
struct Authored {
    file: PathBuf,
    /// What stands in the file.
    text: Arc<str>,
    /// Which of its documents this is.
    index: usize,
    object: Value,
}

pub(crate) async fn run(command: &Rgd) -> Result<()> {
    match command {
        Rgd::Preview(asked) => preview::run(asked, preview::Detail::All).await,
        Rgd::Diff(asked) => preview::run(asked, preview::Detail::Objects).await,
        Rgd::Lint(files) => files.judge(Findings::Told).await,
        Rgd::Validate(files) => files.judge(Findings::LeftOut).await,
        Rgd::Graph {
            files,
            name,
            output,
        } => files.draw(name.as_deref(), *output).await,
    }
}

/// Whether what is allowed and often not meant is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Findings {
    Told,
    LeftOut,
}

/// What became of each definition, in their order.
type Verdicts = Vec<Result<Arc<CompiledGraph>, String>>;

// === impl Files ===

impl Files {
    /// Reports on each definition.
    async fn judge(&self, findings: Findings) -> Result<()> {
        let (authored, verdicts) = self.compile().await?;
        let (lines, refused_count) = report(&authored, &verdicts, findings)?;
        for line in &lines {
            output::line(line)?;
        }
        if refused_count > 0 {
            bail!(
                "{refused_count} of {} definitions are refused",
                authored.len()
            );
        }
        Ok(())
    }

    /// Prints the graph of one definition.
    async fn draw(&self, name: Option<&str>, picture: Picture) -> Result<()> {
        let (authored, verdicts) = self.compile().await?;
        let is_meant = |one: &Authored| name.is_none_or(|name| meta::name(&one.object) == name);
        let both = authored.into_iter().zip(verdicts);
        let mut meant: Vec<_> = both.filter(|(one, _)| is_meant(one)).collect();
        let (Some((mut one, verdict)), None) = (meant.pop(), meant.pop()) else {
            bail!("name one ResourceGraphDefinition of these files with --name");
        };
        let graph = verdict.map_err(anyhow::Error::msg)?;
        one.object["status"] = json!({"resources": graph.resources_status()});
        let drawing = Drawing::of(&one.object);
        output::whole(&match picture {
            Picture::Mermaid => drawing.to_mermaid(),
            Picture::Dot => drawing.to_dot(),
            Picture::Svg => drawing.to_svg(),
        })
    }

    /// Reads and compiles all definitions.
    async fn compile(&self) -> Result<(Vec<Authored>, Verdicts)> {
        let mut kinds = Kinds::default();
        let mut authored = Vec::new();
        let mut others = BTreeSet::new();
        for file in &self.paths {
            let (text, objects) = read(file)?;
            for (index, object) in objects.into_iter().enumerate() {
                match object["kind"].as_str() {
                    Some("ResourceGraphDefinition") => authored.push(Authored {
                        file: file.clone(),
                        text: Arc::clone(&text),
                        index,
                        object,
                    }),
                    Some("CustomResourceDefinition") => define(&mut kinds, &object, file)?,
                    kind => {
                        others.insert(kind.unwrap_or("none").to_owned());
                    }
                }
            }
        }
        if authored.is_empty() {
            let others: Vec<String> = others.into_iter().collect();
            bail!(
                "there is no ResourceGraphDefinition in these files; their kinds: {}",
                others.join(", ")
            );
        }
        for file in self
            .schemas
            .as_deref()
            .map(below)
            .transpose()?
            .into_iter()
            .flatten()
        {
            for object in read(&file)?.1 {
                if object["kind"] == "CustomResourceDefinition" {
                    define(&mut kinds, &object, &file)?;
                }
            }
        }
        self.define_from_cluster(&mut kinds).await?;
        let options = self.gates.compile_options();
        let verdicts = compile_all(&authored, &mut kinds, &options);
        Ok((authored, verdicts))
    }

    /// Adds the kinds that a cluster defines. What the files define goes before.
    async fn define_from_cluster(&self, kinds: &mut Kinds) -> Result<()> {
        const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let Some(kubeconfig) = &self.kubeconfig else {
            return Ok(());
        };
        let dynamic = connect::cluster(kubeconfig, self.context.as_deref()).await?;
        let list = dynamic.raw_get(PATH).await;
        let list = list.context("the CustomResourceDefinitions of the cluster")?;
        let list: Value = serde_json::from_slice(&list)?;
        for object in list["items"].as_array().into_iter().flatten() {
            // A schema that cannot be used here keeps nobody from using the others.
            if let Err(error) = define_missing(kinds, object) {
                output::note(&format!("{}: {error}", meta::name(object)));
            }
        }
        Ok(())
    }
}

/// Compiles definitions.
///
/// A definition may use the kind that another one generates, in any order: those that are refused are tried again for as
/// long as others add kinds.
fn compile_all(
    authored: &[Authored],
    kinds: &mut Kinds,
    options: &graph::CompileOptions,
) -> Verdicts {
    let mut verdicts: Verdicts = authored.iter().map(|_| Err(String::new())).collect();
    loop {
        let mut progress = false;
        for (one, verdict) in authored.iter().zip(&mut verdicts) {
            if verdict.is_err() {
                *verdict = one.compile(kinds, options);
                progress |= verdict.is_ok();
            }
        }
        if !progress {
            return verdicts;
        }
    }
}

/// Returns what is found of each definition, a line each, and how many are refused.
fn report(
    authored: &[Authored],
    verdicts: &Verdicts,
    findings: Findings,
) -> Result<(Vec<String>, usize)> {
    let (mut lines, mut refused_count) = (Vec::new(), 0);
    for (one, verdict) in authored.iter().zip(verdicts) {
        let (file, name) = (one.file.display(), meta::name(&one.object));
        if let Err(reason) = verdict {
            refused_count += 1;
            lines.push(format!("{file}: {name}: error: {reason}"));
            lines.extend(one.shown(reason));
            let unknown = one.unknown_fields().into_iter();
            let unknown = unknown.map(|path| format!("unknown field {path:?}"));
            let help = source::help(reason).map(str::to_owned);
            lines.extend(
                help.into_iter()
                    .chain(unknown)
                    .map(|it| format!("  = help: {it}")),
            );
            continue;
        }
        if findings == Findings::LeftOut {
            continue;
        }
        lines.extend(one.unknown_fields().into_iter().map(|path| {
            format!("{file}: {name}: warning: unknown field {path:?}, which `kubectl apply` refuses [unknown-field]")
        }));
        let spec = one.spec().map_err(anyhow::Error::msg)?;
        for finding in graph::lint::lint(&one.object, &spec) {
            let (rule, resource) = (finding.rule.as_str(), finding.resource);
            let message = finding.message;
            lines.push(format!(
                "{file}: {name}: {resource}: warning: {message} [{rule}]"
            ));
        }
    }
    Ok((lines, refused_count))
}

// === impl Authored ===

impl Authored {
    fn spec(&self) -> Result<RgdSpec, String> {
        RgdSpec::from_value(&self.object["spec"]).map_err(|status| status.message)
    }

    /// Returns lines that show where in its file the definition is wrong.
    fn shown(&self, reason: &str) -> Vec<String> {
        // It was read as YAML before.
        let documents = yaml::placed_documents(&self.text).unwrap_or_default();
        let Some(placed) = documents.get(self.index) else {
            return Vec::new();
        };
        let file = self.file.display().to_string();
        source::shown(&file, &self.text, placed, reason)
    }

    /// Checks the fields of the definition, as a hub does before it compiles it.
    fn check(&self) -> Result<(), String> {
        let Some(kind) = kind() else {
            return Ok(());
        };
        let mut object = self.object.clone();
        schema::structural::default(&mut object, &kind.schema)
            .map_err(|error| error.to_string())?;
        let found = schema::validate(&object, &kind.schema, None);
        if found.is_empty() {
            return Ok(());
        }
        // The whole object is named only to say that rules were not looked at because of the others.
        let whole = FieldPath::root().to_string();
        let (of_all, mut telling): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|it| it.path == whole);
        if telling.is_empty() {
            telling = of_all;
        }
        Err(api::field::aggregate(&telling))
    }

    /// Returns the paths of fields that no definition has.
    fn unknown_fields(&self) -> Vec<String> {
        unknown_fields(&self.object)
    }

    /// Compiles the definition, and adds the kind that it generates.
    fn compile(
        &self,
        kinds: &mut Kinds,
        options: &graph::CompileOptions,
    ) -> Result<Arc<CompiledGraph>, String> {
        self.check()?;
        let graph = graph::compile_with(&self.spec()?, meta::name(&self.object), kinds, options)
            .map_err(|error| error.to_string())?;
        kinds.define(graph.definition())?;
        Ok(graph)
    }
}

/// Returns the kind of definitions.
fn kind() -> Option<ResolvedKind> {
    ResolvedKind::built_in(&GroupVersionKind::new(
        kro::GROUP,
        kro::VERSION,
        kro::RGD_KIND,
    ))
}

fn define_missing(kinds: &mut Kinds, object: &Value) -> Result<(), String> {
    let definition = CustomResourceDefinition::from_value(object);
    kinds.define_missing(&definition.map_err(|status| status.message)?)
}

fn define(kinds: &mut Kinds, object: &Value, file: &Path) -> Result<()> {
    let definition = CustomResourceDefinition::from_value(object)
        .map_err(|status| anyhow::Error::msg(status.message))
        .with_context(|| format!("{}", file.display()))?;
    kinds
        .define(&definition)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("{}: {}", file.display(), meta::name(object)))
}

/// Returns the paths of fields of an object that no definition has.
fn unknown_fields(definition: &Value) -> Vec<String> {
    kind()
        .map(|kind| schema::structural::unknown_fields(definition, &kind.schema))
        .unwrap_or_default()
}

/// Reads a YAML file, and the documents in it.
fn read(file: &Path) -> Result<(Arc<str>, Vec<Value>)> {
    let path = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {path}"))?;
    match yaml::documents(&text, Aliases::Trusted) {
        Ok(documents) => Ok((text.into(), documents)),
        Err(error) => {
            // It shows the place in several lines.
            let error = error.to_string().replace("<input>", &path.to_string());
            for line in format!("{path}: {error}").lines() {
                output::line(line)?;
            }
            bail!("{path} is not YAML")
        }
    }
}

/// Returns the YAML and JSON files of a directory and of those below it.
fn below(directory: &Path) -> Result<Vec<PathBuf>> {
    let path = directory.display();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| format!("cannot read {path}"))? {
        let path = entry?.path();
        let extension = path.extension().and_then(|it| it.to_str());
        if path.is_dir() {
            files.extend(below(&path)?);
        } else if matches!(extension, Some("yaml" | "yml" | "json")) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn authored(name: &str, kind: &str, template: &Value) -> Authored {
        Authored {
            file: PathBuf::from("a.yaml"),
            text: "".into(),
            index: 0,
            object: json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": name}, "spec": {
                "schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {"a": "string"}},
                "resources": [{"id": "made", "template": template}]}}),
        }
    }

    fn config_map(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    }

    #[test]
    fn definitions_are_compiled_in_the_order_in_which_they_use_each_other() {
        let uses = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Inner",
            "metadata": {"name": "${schema.metadata.name}"}, "spec": {"a": "${schema.spec.a}"}});
        let outer = authored("outer", "Outer", &uses);
        let inner = authored("inner", "Inner", &config_map("settings"));
        let both = [outer, inner];
        let judge = |authored: &[Authored]| {
            let options = graph::CompileOptions::default();
            let verdicts = compile_all(authored, &mut Kinds::default(), &options);
            report(authored, &verdicts, Findings::Told).expect("a report")
        };
        let (lines, refused_count) = judge(&both);
        assert_eq!(refused_count, 0, "{lines:?}");
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].starts_with("a.yaml: inner: made: warning: the name \"settings\""),
            "{lines:?}"
        );
        let [outer, _] = both;
        let (lines, refused_count) = judge(&[outer]);
        assert_eq!(refused_count, 1, "{lines:?}");
        assert!(lines[0].contains("outer: error: "), "{lines:?}");
    }

    #[test]
    fn fields_are_checked_as_by_a_hub() {
        let mut one = authored("one", "One", &config_map("${schema.metadata.name}"));
        one.object["spec"]["resourcez"] = json!([]);
        let judge = |one: &Authored| {
            let authored = std::slice::from_ref(one);
            let options = graph::CompileOptions::default();
            let verdicts = compile_all(authored, &mut Kinds::default(), &options);
            report(authored, &verdicts, Findings::Told).expect("a report")
        };
        let (lines, refused_count) = judge(&one);
        assert_eq!(refused_count, 0, "{lines:?}");
        assert_eq!(
            lines,
            [
                "a.yaml: one: warning: unknown field \"spec.resourcez\", which `kubectl apply` refuses [unknown-field]"
            ]
        );
        let made = one.object["spec"]["resources"][0].as_object_mut();
        let made = made.expect("a resource");
        let id = made.remove("id").expect("an id");
        made.insert("idd".to_owned(), id);
        let (lines, refused_count) = judge(&one);
        assert_eq!(refused_count, 1, "{lines:?}");
        assert_eq!(
            lines,
            [
                "a.yaml: one: error: spec.resources[0].id: Required value",
                "  = help: unknown field \"spec.resources[0].idd\"",
                "  = help: unknown field \"spec.resourcez\"",
            ]
        );
    }
}
