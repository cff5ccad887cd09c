//! `docs/settings.md`, written from the same tables that the file and the command line are read by.

use super::lists::{LISTS, List};
use super::table::{SETTINGS, Setting};

const HEAD: &str = concat!(
    "# Settings\n\n",
    "This file is generated from `crates/proxy/src/settings/`: run `make docs` after a change there.\n\n",
    "A setting has one dotted name. In the configuration file (TOML, `tidegate -c FILE`) the part before the last dot ",
    "is the section: `memory.size` is `size` under `[memory]`. On the command line every setting is also a flag; a flag ",
    "beats the file. `tidegate check FILE` names every mistake with line and column and what would be right.\n\n",
    "Sizes are whole numbers with `B`, `KiB`, `MiB`, `GiB` or `TiB`; durations are whole numbers with `ms`, `s`, `min` or `h`. ",
    "Settings are read at the start.\n\n",
);

/// The text of `docs/settings.md`.
#[must_use]
pub fn document() -> String {
    let mut out = String::from(HEAD);
    out += "## Lists\n\nEach is an array of tables in the file and a flag that may be repeated.\n";
    LISTS.iter().for_each(|list| out += &list_section(list));
    out += "\n## Values\n\n| setting | flag | default | takes | meaning |\n|---|---|---|---|---|\n";
    SETTINGS.iter().for_each(|setting| out += &row(setting));
    out
}

fn list_section(list: &List) -> String {
    let List { name, flag, flag_value, help, default, .. } = list;
    let mut out = format!("\n### `[[{name}]]`, `--{flag} {flag_value}`\n\n{help}. Default: {default}.\n\n");
    out += "| key | takes | meaning |\n|---|---|---|\n";
    for key in list.keys {
        let need = if key.required { "" } else { " (optional)" };
        out += &format!("| `{}`{need} | {} | {} |\n", key.name, key.forms, key.help);
    }
    out
}

fn row(setting: &Setting) -> String {
    format!(
        "| `{}` | `--{}` | {} | {} | {} |\n",
        setting.name,
        setting.flag(),
        setting.default_words(),
        setting.field.short_forms(),
        setting.help
    )
}
