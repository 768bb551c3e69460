//! A drawing as text: for Graphviz, for Mermaid, and as a picture by itself.
//!
//! # Invariants
//! - What a definition says is only ever a label, and written so that no format takes it for anything else.

use std::fmt::{self, Display, Write as _};

use super::{Drawing, Edge, Node, Trait};

/// A text in which each of these characters is written as its replacement, and a control character as a space.
struct Escaped<'a> {
    text: &'a str,
    with: &'static [(char, &'static str)],
}

/// Source: the DOT language, "ID": double-quoted strings.
const DOT: &[(char, &str)] = &[('"', "\\\""), ('\\', "\\\\")];
/// Source: Mermaid, "Entity codes to escape characters".
const MERMAID: &[(char, &str)] = &[
    ('"', "#quot;"),
    ('#', "#35;"),
    (';', "#59;"),
    ('<', "#lt;"),
    ('>', "#gt;"),
    ('&', "#amp;"),
    ('`', "#96;"),
];
/// Source: XML 1.0, section 2.4.
const XML: &[(char, &str)] = &[
    ('&', "&amp;"),
    ('<', "&lt;"),
    ('>', "&gt;"),
    ('"', "&quot;"),
    ('\'', "&#39;"),
];

/// Space around a picture, in CSS pixels.
const MARGIN: u32 = 12;
/// What a picture looks like, on light and on dark pages.
const STYLE: &str = "\
    text{font:13px system-ui,sans-serif;fill:#1c2128}.kind{font-size:11px;fill:#57606a}\
    rect{fill:#fff;stroke:#8c959f}.conditional{stroke-dasharray:5 3}.external{fill:#f0f3f6}\
    path{fill:none;stroke:#8c959f}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.kind{fill:#9198a1}rect{fill:#161b22}.external{fill:#21262d}}";

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.text.chars() {
            match self.with.iter().find(|(from, _)| *from == character) {
                Some((_, to)) => f.write_str(to)?,
                None if character.is_control() => f.write_char(' ')?,
                None => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

// === impl Drawing ===

impl Drawing {
    /// Returns the drawing in the DOT language of Graphviz, which lays it out itself.
    pub fn to_dot(&self) -> String {
        let mut out = format!(
            "digraph \"{}\" {{\n  rankdir=LR\n  node [shape=box]\n",
            dot(&self.name)
        );
        for (place, node) in self.nodes.iter().enumerate() {
            let style = if node.is(Trait::Conditional) {
                ", style=dashed"
            } else {
                ""
            };
            let (id, kind) = (dot(&node.id), node.subtitle());
            let kind = dot(&kind);
            line(
                &mut out,
                format_args!("  n{place} [label=\"{id}\\n{kind}\"{style}]"),
            );
        }
        for (from, to) in self.arrows() {
            line(&mut out, format_args!("  n{from} -> n{to}"));
        }
        out.push('}');
        out
    }

    /// Returns the drawing as a flowchart of Mermaid, which GitHub and others lay out and show in Markdown.
    pub fn to_mermaid(&self) -> String {
        let mut out = "flowchart LR\n".to_owned();
        for (place, node) in self.nodes.iter().enumerate() {
            let (id, kind) = (mermaid(&node.id), node.subtitle());
            let kind = mermaid(&kind);
            line(&mut out, format_args!("  n{place}[\"{id}<br/>{kind}\"]"));
            if node.is(Trait::Conditional) {
                line(
                    &mut out,
                    format_args!("  style n{place} stroke-dasharray: 5 3"),
                );
            }
        }
        for (from, to) in self.arrows() {
            line(&mut out, format_args!("  n{from} --> n{to}"));
        }
        out.pop();
        out
    }

    /// Returns the drawing as a picture, an SVG document without scripts and without anything from outside.
    pub fn to_svg(&self) -> String {
        let (width, height) = (self.width + 2 * MARGIN, self.height + 2 * MARGIN);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"-{MARGIN} -{MARGIN} {width} {height}\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
             <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             orient=\"auto\"><path d=\"M1 1 8 4 1 7\"/></marker></defs>\n",
            xml(&self.name)
        );
        for Edge { points, .. } in &self.edges {
            let mut path = String::new();
            for (place, (x, y)) in points.iter().enumerate() {
                let letter = if place == 0 { 'M' } else { 'L' };
                // Writing to a String does not fail.
                let _written = write!(path, "{letter}{x} {y}");
            }
            line(
                &mut out,
                format_args!("<path d=\"{path}\" marker-end=\"url(#tip)\"/>"),
            );
        }
        for node in &self.nodes {
            let (x, y, kind) = (node.x, node.y, node.subtitle());
            let class = match () {
                () if node.is(Trait::External) => " class=\"external\"",
                () if node.is(Trait::Conditional) => " class=\"conditional\"",
                () => "",
            };
            line(
                &mut out,
                format_args!(
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"6\"{class}/>\n\
                 <text x=\"{}\" y=\"{}\">{}</text>\n<text class=\"kind\" x=\"{}\" y=\"{}\">{}</text>",
                    node.width,
                    node.height,
                    x + 10,
                    y + 22,
                    xml(&node.id),
                    x + 10,
                    y + 40,
                    xml(&kind),
                ),
            );
        }
        out.push_str("</svg>");
        out
    }

    /// The places of the nodes at the ends of each arrow.
    fn arrows(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let place = |id: &str| self.nodes.iter().position(|node| node.id == id);
        let ends = move |edge: &Edge| Some((place(&edge.from)?, place(&edge.to)?));
        self.edges.iter().filter_map(ends)
    }
}

// === impl Node ===

impl Node {
    fn is(&self, what: Trait) -> bool {
        self.traits.contains(&what)
    }

    /// What stands below the name.
    fn subtitle(&self) -> String {
        let mut text = self.kind.clone();
        for (what, word) in [
            (Trait::Collection, "forEach"),
            (Trait::Conditional, "includeWhen"),
            (Trait::External, "externalRef"),
        ] {
            if self.is(what) {
                text.push_str(", ");
                text.push_str(word);
            }
        }
        text
    }
}

const fn dot(text: &str) -> Escaped<'_> {
    Escaped { text, with: DOT }
}

const fn mermaid(text: &str) -> Escaped<'_> {
    let with = MERMAID;
    Escaped { text, with }
}

const fn xml(text: &str) -> Escaped<'_> {
    Escaped { text, with: XML }
}

fn line(out: &mut String, text: fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _written = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drawing(kind: &str) -> Drawing {
        Drawing::of(&json!({
            "metadata": {"name": "shop"},
            "spec": {"resources": [
                {"id": "web", "template": {"kind": kind}, "includeWhen": ["${true}"]},
                {"id": "config", "template": {"kind": "ConfigMap"}},
            ]},
            "status": {"resources": [{"id": "web", "dependencies": [{"id": "config"}]}]},
        }))
    }

    #[test]
    fn a_drawing_is_written_for_graphviz_and_for_mermaid() {
        let drawing = drawing("Deployment");
        assert_eq!(
            drawing.to_dot(),
            "digraph \"shop\" {\n  rankdir=LR\n  node [shape=box]\n  \
             n0 [label=\"web\\nDeployment, includeWhen\", style=dashed]\n  n1 [label=\"config\\nConfigMap\"]\n  \
             n1 -> n0\n}"
        );
        assert_eq!(
            drawing.to_mermaid(),
            "flowchart LR\n  n0[\"web<br/>Deployment, includeWhen\"]\n  style n0 stroke-dasharray: 5 3\n  \
             n1[\"config<br/>ConfigMap\"]\n  n1 --> n0"
        );
        let svg = drawing.to_svg();
        assert_eq!(svg.matches("<rect ").count(), 2, "{svg}");
        assert_eq!(svg.matches("marker-end").count(), 1, "{svg}");
    }

    #[test]
    fn a_label_ends_where_its_text_ends() {
        let drawing = drawing("\"]; x --> y\\\n</text><script>alert(1)</script>`&#quot;");
        let (dot, mermaid, svg) = (drawing.to_dot(), drawing.to_mermaid(), drawing.to_svg());
        assert!(dot.contains(r#"\"]; x --> y\\ </text>"#), "{dot}");
        assert!(mermaid.contains("#quot;]#59; x --#gt; y"), "{mermaid}");
        assert!(!mermaid.contains("<script"), "{mermaid}");
        assert!(!svg.contains("<script"), "{svg}");
        assert_eq!(dot.lines().count(), 7, "{dot}");
    }
}
