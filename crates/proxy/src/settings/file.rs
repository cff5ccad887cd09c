//! The configuration file: every table and key is looked up among the settings; what is not there is told, with the
//! known name that comes closest.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::given::{Given, Value};
use super::lists::{self, LISTS};
use super::load::Draft;
use super::mistake::{Spot, Wrong};
use super::nearest::nearest;
use super::table::{self, SETTINGS};

/// Reads a whole file into the draft. When it is not TOML only that is told: what else would be said of a file that
/// was half understood would mislead.
pub(super) fn read(text: &str, draft: &mut Draft, wrongs: &mut Vec<Wrong>) {
    let (root, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return walk(text, "", root.get_ref(), draft, wrongs);
    }
    wrongs.extend(errors.iter().map(|error| {
        let spot = Spot::Bytes(error.span().unwrap_or(0..0));
        let message = error.message().lines().next().unwrap_or("cannot be read");
        Wrong::new(
            &spot,
            "",
            format!("not TOML: {message}"),
            "name = value, texts in double quotes, [section] on a line of its own",
        )
    }));
}

fn walk(text: &str, section: &str, table: &DeTable<'_>, draft: &mut Draft, wrongs: &mut Vec<Wrong>) {
    for (key, value) in table {
        let name = dotted(section, key.get_ref());
        if let Some(list) = lists::find(&name) {
            list.read(text, &Given::in_file(text, value), draft, wrongs);
        } else if let Some(setting) = table::find(&name) {
            let given = Given::in_file(text, value);
            if let Err(more) = setting.field.set(&name, &mut draft.settings, &given) {
                wrongs.extend(more);
            }
        } else if is_section(&name) {
            enter(text, &name, value, draft, wrongs);
        } else {
            wrongs.push(unknown(section, &name, key.get_ref(), Spot::Bytes(key.span())));
        }
    }
}

fn enter(text: &str, name: &str, value: &Spanned<DeValue<'_>>, draft: &mut Draft, wrongs: &mut Vec<Wrong>) {
    let given = Given::in_file(text, value);
    match given.value {
        Value::Table(inner) => walk(text, name, inner, draft, wrongs),
        _ => {
            let right = format!(
                "[{name}] on a line of its own, then its settings below: {}",
                keys_of(name).join(", ")
            );
            wrongs.push(given.is_not(name, "a section", &right));
        }
    }
}

fn dotted(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name).chain(LISTS.iter().map(|list| list.name))
}

fn is_section(name: &str) -> bool {
    names().any(|known| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// What may stand in a section, or at the top with the empty name.
fn keys_of(section: &str) -> Vec<&'static str> {
    let below = |name: &'static str| match section {
        "" => Some(name),
        _ => name.strip_prefix(section)?.strip_prefix('.'),
    };
    let mut keys: Vec<_> = names().filter_map(below).filter_map(|rest| rest.split('.').next()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The same key in another section; else the nearest name in this one; else all that there is here.
fn unknown(section: &str, name: &str, key: &str, spot: Spot) -> Wrong {
    let here = keys_of(section);
    let elsewhere = names().find(|known| known.rsplit('.').next() == Some(key));
    let right = match (elsewhere, nearest(key, here.iter().copied())) {
        (Some(known), _) => format!("perhaps {known}"),
        (None, Some(near)) => format!("perhaps {near}"),
        (None, None) => format!("known here: {}", here.join(", ")),
    };
    Wrong::new(&spot, name, "no such setting", right)
}
