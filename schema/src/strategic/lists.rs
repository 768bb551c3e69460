//! Lists in a strategic merge patch: merge by key, deletion, and order.
//!
//! The order of the result: items of the patch in the order of the patch (or of `$setElementOrder`), and among them the
//! items of the object alone, each before the first item of the patch that followed it in the object.
//!
//! Source: `apimachinery/pkg/util/strategicpatch/patch.go`.

use dialect::value::{plain, type_name};
use serde_json::{Map, Value};

use super::lookup::Lookup;
use super::{
    DELETE, DIRECTIVE, MERGE, PatchError, REPLACE, bad_argument, merge_map, no_merge_key,
    unknown_directive,
};

/// How one list merges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListRules<'a> {
    items: Lookup<'a>,
}

/// The type of the items, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Items {
    Maps,
    Scalars,
}

// === impl ListRules ===

impl<'a> ListRules<'a> {
    pub(crate) fn of(items: &Lookup<'a>) -> Self {
        Self { items: *items }
    }

    /// Merges a list of the patch into a list of the object.
    pub(crate) fn merge(
        self,
        original: Vec<Value>,
        patch: Vec<Value>,
    ) -> Result<Vec<Value>, PatchError> {
        if !self.items.merges() {
            return Ok(patch);
        }
        self.merge_items(original, patch)
    }

    fn merge_items(
        self,
        original: Vec<Value>,
        patch: Vec<Value>,
    ) -> Result<Vec<Value>, PatchError> {
        if original.is_empty() && patch.is_empty() {
            return Ok(original);
        }
        let items = items_of(&[&original, &patch])?;
        let count = original.len().saturating_add(patch.len());
        if items == Items::Scalars {
            self.items.charge(count, count)?;
        }
        let (merged, original, patch) = match (items, self.items.merge_key()) {
            (Items::Scalars, _) => {
                let both = original.iter().chain(&patch).cloned().collect();
                (deduplicated(both), original, patch)
            }
            (Items::Maps, None) => {
                return Err(PatchError::Other(
                    "cannot merge lists without merge key for struct".to_owned(),
                ));
            }
            (Items::Maps, Some(key)) => {
                self.items.charge(count, patch.len())?;
                let (original, patch) = apply_directives(original, patch, key)?;
                let merged = self.merge_maps(original.clone(), patch.clone(), key)?;
                (merged, original, patch)
            }
        };
        self.order(merged, &patch, &original)
    }

    /// Takes scalars out of a list of the object, whatever its strategy.
    pub(crate) fn delete(
        self,
        original: Vec<Value>,
        deleted: &[Value],
    ) -> Result<Vec<Value>, PatchError> {
        if original.is_empty() && deleted.is_empty() {
            return Ok(original);
        }
        self.items.charge(original.len(), deleted.len())?;
        if items_of(&[&original, deleted])? == Items::Maps {
            return self.merge_items(original, deleted.to_vec());
        }
        Ok(original
            .into_iter()
            .filter(|item| !deleted.contains(item))
            .collect())
    }

    /// Puts merged items in order: those named by `patch_order` as it has them, the others as `server_order` does.
    pub(crate) fn order(
        self,
        merged: Vec<Value>,
        patch_order: &[Value],
        server_order: &[Value],
    ) -> Result<Vec<Value>, PatchError> {
        let named = patch_order.len().saturating_add(server_order.len());
        self.items.charge(merged.len(), named)?;
        let key = self.items.merge_key();
        let (mut patch_items, mut server_items) = (Vec::new(), Vec::new());
        for item in merged {
            match position(patch_order, &item, key)? {
                Some(position) => patch_items.push((position, item)),
                None => server_items.push(item),
            }
        }
        patch_items.sort_by_key(|(position, _)| *position);
        let mut server_items: Vec<(Option<usize>, Value)> = server_items
            .into_iter()
            .map(|item| Ok((position(server_order, &item, key)?, item)))
            .collect::<Result<_, PatchError>>()?;
        self.items
            .charge(server_items.len(), unplaced_count(&server_items))?;
        sort_by_position(&mut server_items);
        let mut ordered = Vec::with_capacity(patch_items.len().saturating_add(server_items.len()));
        let mut left = server_items.into_iter().peekable();
        for (_, right) in patch_items {
            let right_position = position(server_order, &right, key)?;
            while let Some((_, item)) = left.next_if(|(position, _)| {
                position
                    .zip(right_position)
                    .is_some_and(|(left, right)| left < right)
            }) {
                ordered.push(item);
            }
            ordered.push(right);
        }
        ordered.extend(left.map(|(_, item)| item));
        Ok(ordered)
    }

    /// The order of the object's list after items of the patch were deleted from it. As many new items as were deleted
    /// count as the last ones: Kubernetes writes them into the room that the deleted ones leave, and then takes the
    /// list for the order of the object.
    pub(crate) fn order_after(
        self,
        original: Vec<Value>,
        patch: &[Value],
    ) -> Result<Vec<Value>, PatchError> {
        let Some(key) = self.items.merge_key().filter(|_| self.items.merges()) else {
            return Ok(original);
        };
        self.items
            .charge(original.len(), patch.len().saturating_mul(2))?;
        let directive = |item: &Value| {
            item.get(DIRECTIVE)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        if patch
            .iter()
            .any(|item| directive(item).as_deref() == Some(REPLACE))
        {
            return Ok(original);
        }
        let is_deleted = |item: &Value| {
            patch.iter().any(|deleted| {
                directive(deleted).as_deref() == Some(DELETE) && deleted.get(key) == item.get(key)
            })
        };
        let count = original.len();
        let mut order: Vec<Value> = original
            .into_iter()
            .filter(|item| !is_deleted(item))
            .collect();
        for item in patch.iter().filter(|item| directive(item).is_none()) {
            let is_new = !order.iter().any(|kept| kept.get(key) == item.get(key));
            if is_new && order.len() < count {
                order.push(item.clone());
            }
        }
        Ok(order)
    }

    /// Checks that a list of the patch holds items of `$setElementOrder` alone, in its order.
    pub(crate) fn check_order(self, patch: &[Value], order: &[Value]) -> Result<(), PatchError> {
        if patch.is_empty() || order.is_empty() {
            return Ok(());
        }
        let key = self.items.merge_key();
        let mut kept = Vec::new();
        for item in patch {
            match (key, item) {
                (Some(_), Value::Object(fields)) => {
                    // Deletions have no place in the order.
                    if fields.get(DIRECTIVE).and_then(Value::as_str) != Some(DELETE) {
                        kept.push(item);
                    }
                }
                (Some(_), other) => return Err(bad_argument("map[string]interface {}", other)),
                (None, item) => kept.push(item),
            }
        }
        let mut kept = kept.into_iter().peekable();
        for named in order {
            // Nor have items with another directive, as long as the order goes on.
            while kept.next_if(|item| item.get(DIRECTIVE).is_some()).is_some() {}
            let Some(item) = kept.peek() else {
                return Ok(());
            };
            if same_item(item, named, key)? {
                kept.next();
            }
        }
        if kept.peek().is_none() {
            return Ok(());
        }
        Err(PatchError::Other(format!(
            "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
            plain(&Value::Array(patch.to_vec())),
            plain(&Value::Array(order.to_vec()))
        )))
    }

    fn merge_maps(
        self,
        mut original: Vec<Value>,
        patch: Vec<Value>,
        key: &str,
    ) -> Result<Vec<Value>, PatchError> {
        for item in patch {
            let Value::Object(fields) = item else {
                return Err(bad_argument("map[string]interface {}", &item));
            };
            let Some(value) = fields.get(key) else {
                return Err(no_merge_key(&fields, key));
            };
            match find(&original, key, value)? {
                Some(position) => {
                    if let Some(slot) = original.get_mut(position) {
                        let before = match slot.take() {
                            Value::Object(before) => before,
                            _ => Map::new(),
                        };
                        *slot = Value::Object(merge_map(before, fields, &self.items)?);
                    }
                }
                None => original.push(Value::Object(fields)),
            }
        }
        Ok(original)
    }
}

/// Checks that the items are of one type, and no lists.
pub(crate) fn check_types(original: &[Value], patch: &[Value]) -> Result<(), PatchError> {
    items_of(&[original, patch]).map(|_| ())
}

/// Carries out what items of the patch say with `$patch`, and leaves the other items.
fn apply_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut kept = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        let Value::Object(fields) = &item else {
            kept.push(item);
            continue;
        };
        match fields
            .get(DIRECTIVE)
            .map(|directive| (directive, directive.as_str()))
        {
            None => kept.push(item),
            Some((_, Some(DELETE))) => {
                let Some(value) = fields.get(key) else {
                    return Err(no_merge_key(fields, key));
                };
                while let Some(position) = find(&original, key, value)? {
                    original.remove(position);
                }
            }
            Some((_, Some(REPLACE))) => replace = true,
            Some((_, Some(MERGE))) => {
                return Err(PatchError::Other(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            Some((directive, _)) => return Err(unknown_directive(directive, fields.clone())),
        }
    }
    Ok(if replace {
        (kept, Vec::new())
    } else {
        (original, kept)
    })
}

/// How many items stand nowhere. Where there are any, each item may move past each other one.
fn unplaced_count(items: &[(Option<usize>, Value)]) -> usize {
    if items.iter().all(|(position, _)| position.is_some()) {
        1
    } else {
        items.len()
    }
}

/// Sorts items by where they stand. An item that stands nowhere, and one compared with it, comes first, whichever is
/// looked at later: so Kubernetes has it, with an insertion sort.
fn sort_by_position(items: &mut [(Option<usize>, Value)]) {
    if items.iter().all(|(position, _)| position.is_some()) {
        items.sort_by_key(|(position, _)| *position);
        return;
    }
    for end in 1..items.len() {
        for index in (1..=end).rev() {
            let Some([(before, _), (this, _)]) = items.get(index.saturating_sub(1)..=index) else {
                break;
            };
            if this
                .zip(*before)
                .is_some_and(|(this, before)| this >= before)
            {
                break;
            }
            items.swap(index.saturating_sub(1), index);
        }
    }
}

/// The first item with this value of the key.
fn find(items: &[Value], key: &str, value: &Value) -> Result<Option<usize>, PatchError> {
    for (position, item) in items.iter().enumerate() {
        let Value::Object(fields) = item else {
            return Err(PatchError::Other(format!(
                "value for key {position} is not a map"
            )));
        };
        if fields.get(key) == Some(value) {
            return Ok(Some(position));
        }
    }
    Ok(None)
}

/// Where an item stands in a list, by its key or as a whole.
fn position(list: &[Value], item: &Value, key: Option<&str>) -> Result<Option<usize>, PatchError> {
    let Some(key) = key else {
        return Ok(list.iter().position(|other| other == item));
    };
    match item {
        Value::Object(fields) => match fields.get(key) {
            Some(value) => find(list, key, value),
            None => Err(no_merge_key(fields, key)),
        },
        other => Err(bad_argument("map[string]interface {}", other)),
    }
}

fn same_item(left: &Value, right: &Value, key: Option<&str>) -> Result<bool, PatchError> {
    let Some(key) = key else {
        return Ok(left == right);
    };
    let value = |item: &Value| match item {
        Value::Object(fields) => fields
            .get(key)
            .cloned()
            .ok_or_else(|| no_merge_key(fields, key)),
        other => Err(bad_argument("map[string]interface {}", other)),
    };
    Ok(value(left)? == value(right)?)
}

/// Drops repeated scalars. The last item takes the place of a dropped one, as Kubernetes does it.
fn deduplicated(mut items: Vec<Value>) -> Vec<Value> {
    let mut kept: usize = 0;
    while kept < items.len() {
        let mut other = kept.saturating_add(1);
        while other < items.len() {
            if items.get(kept) == items.get(other) {
                items.swap_remove(other);
            } else {
                other = other.saturating_add(1);
            }
        }
        kept = kept.saturating_add(1);
    }
    items
}

fn items_of(lists: &[&[Value]]) -> Result<Items, PatchError> {
    let mut items = lists.iter().copied().flatten();
    let Some(first) = items.next() else {
        return Err(PatchError::Other(
            "no elements in any of the given slices".to_owned(),
        ));
    };
    if first.is_array() {
        return Err(PatchError::ListOfLists);
    }
    if items.any(|item| type_name(item) != type_name(first)) {
        let lists: Vec<Value> = lists
            .iter()
            .map(|list| Value::Array(list.to_vec()))
            .collect();
        return Err(PatchError::Other(format!(
            "list element types are not identical: {}",
            plain(&Value::Array(lists))
        )));
    }
    Ok(if first.is_object() {
        Items::Maps
    } else {
        Items::Scalars
    })
}
