//! YAML with the place of each value: for those who show an author where something is wrong.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::{Aliases, YamlError, failed, options};

/// Where something stands in a text. Both count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// A value, with where it and everything in it stand.
#[derive(Debug)]
pub struct Placed {
    place: Place,
    inside: Inside,
}

#[derive(Debug)]
enum Inside {
    Nothing,
    /// A text.
    Text(String),
    /// The fields of a map, with the places of their keys.
    Fields(Vec<(String, Place, Placed)>),
    Items(Vec<Placed>),
}

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into a field of a map.
    Field(String),
    /// Into an item of a list.
    Item(usize),
}

/// Reads all documents of a text that is the caller's own file, as [`documents`](super::documents) does.
///
/// # Errors
/// Returns an error where the text is not YAML.
pub fn placed_documents(text: &str) -> Result<Vec<Placed>, YamlError> {
    let read: Result<Vec<Spanned<Inside>>, _> =
        serde_saphyr::from_multiple_with_options(text, options(Aliases::Trusted));
    Ok(read.map_err(failed)?.into_iter().map(Placed::of).collect())
}

// === impl Placed ===

impl Placed {
    fn of(spanned: Spanned<Inside>) -> Self {
        Self {
            place: Place::of(&spanned.referenced),
            inside: spanned.value,
        }
    }

    /// Returns the text, where it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.inside {
            Inside::Text(text) => Some(text),
            Inside::Nothing | Inside::Fields(_) | Inside::Items(_) => None,
        }
    }

    /// Returns the items, where it is a list.
    pub fn items(&self) -> &[Self] {
        match &self.inside {
            Inside::Items(items) => items,
            Inside::Nothing | Inside::Text(_) | Inside::Fields(_) => &[],
        }
    }

    /// Returns a field, where it is a map that has it.
    pub fn field(&self, name: &str) -> Option<&Self> {
        self.entry(name).map(|(_, value)| value)
    }

    fn entry(&self, name: &str) -> Option<(Place, &Self)> {
        let Inside::Fields(fields) = &self.inside else {
            return None;
        };
        let found = fields.iter().find(|(key, ..)| key == name);
        found.map(|(_, place, value)| (*place, value))
    }

    /// Goes as far along a way as there is something, and returns where that stands: a text by itself, anything else by its key.
    pub fn place_of(&self, way: &[Step]) -> Place {
        let (mut place, mut at) = (self.place, self);
        for step in way {
            let next = match step {
                Step::Field(name) => at.entry(name),
                Step::Item(index) => at.items().get(*index).map(|item| (item.place, item)),
            };
            let Some((key, value)) = next else {
                return place;
            };
            place = if value.text().is_some() {
                value.place
            } else {
                key
            };
            at = value;
        }
        place
    }
}

// === impl Place ===

impl Place {
    fn of(location: &serde_saphyr::Location) -> Self {
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            line: count(location.line()),
            column: count(location.column()),
        }
    }
}

// === impl Inside ===

impl<'de> Deserialize<'de> for Inside {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InsideVisitor)
    }
}

struct InsideVisitor;

impl<'de> Visitor<'de> for InsideVisitor {
    type Value = Inside;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Inside, E> {
        Ok(Inside::Nothing)
    }

    fn visit_none<E>(self) -> Result<Inside, E> {
        Ok(Inside::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Inside, D::Error> {
        Inside::deserialize(deserializer)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Inside, E> {
        Ok(Inside::Text(v.to_string()))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Inside, E> {
        Ok(Inside::Text(v.to_string()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Inside, E> {
        Ok(Inside::Text(v.to_string()))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Inside, E> {
        Ok(Inside::Text(v.to_string()))
    }

    fn visit_str<E>(self, v: &str) -> Result<Inside, E> {
        Ok(Inside::Text(v.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Inside, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<Spanned<Inside>>()? {
            items.push(Placed::of(item));
        }
        Ok(Inside::Items(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Inside, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<Spanned<Inside>>()? {
            let place = Place::of(&key.referenced);
            let Inside::Text(key) = key.value else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let value = Placed::of(map.next_value()?);
            fields.push((key, place, value));
        }
        Ok(Inside::Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_leads_as_far_as_there_is_something() {
        let text = "a: 1\n---\nspec:\n  list:\n  - id: one\n    data: {k: 'v'}\n  - id: two\n    long: >\n      folded\n      text\n";
        let documents = placed_documents(text).expect("it is YAML");
        let [_, second] = documents.as_slice() else {
            panic!("{documents:?}");
        };
        let field = |name: &str| Step::Field(name.to_owned());
        for (way, want) in [
            (vec![], (3, 1)),
            (vec![field("spec")], (3, 1)),
            (vec![field("spec"), field("list")], (4, 3)),
            (
                vec![field("spec"), field("list"), Step::Item(0), field("id")],
                (5, 9),
            ),
            (
                vec![field("spec"), field("list"), Step::Item(0), field("data")],
                (6, 5),
            ),
            (
                vec![
                    field("spec"),
                    field("list"),
                    Step::Item(0),
                    field("data"),
                    field("k"),
                ],
                (6, 15),
            ),
            (
                vec![
                    field("spec"),
                    field("list"),
                    Step::Item(0),
                    field("data"),
                    field("absent"),
                ],
                (6, 5),
            ),
            (
                vec![field("spec"), field("list"), Step::Item(9), field("id")],
                (4, 3),
            ),
            (
                vec![field("spec"), field("list"), Step::Item(1), field("id")],
                (7, 9),
            ),
        ] {
            let place = second.place_of(&way);
            assert_eq!((place.line, place.column), want, "{way:?}");
        }
        let second = second.field("spec").and_then(|it| it.field("list"));
        let texts = second.map(|it| {
            it.items()
                .iter()
                .filter_map(|it| it.field("id")?.text())
                .collect::<Vec<_>>()
        });
        assert_eq!(texts, Some(vec!["one", "two"]));
    }
}
