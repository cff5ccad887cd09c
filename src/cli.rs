//! The command line. Flags of `serve` are not listed here: they are made from the tables of `proxy::settings`.

pub(crate) mod load;

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, FromArgMatches, Parser, Subcommand};
use proxy::settings::lists::LISTS;
use proxy::settings::table::SETTINGS;

/// An HTTP cache for Linux: forward and reverse proxy, zero-copy bodies, a log-structured store on raw disks.
///
/// Without a command it serves. With nothing at all it is a forward proxy on 127.0.0.1:3128.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, args_conflicts_with_subcommands = true, max_term_width = 110)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: Serve,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve (the default).
    Serve(Serve),
    /// Read a configuration file and name every mistake in it.
    Check(Check),
    /// Make raw devices or files a store.
    Format(Format),
    /// Look into the devices of a store, without writing to them.
    Inspect(Inspect),
    /// Forget what is stored under a URL, a prefix of URLs or a tag, through the admin interface of a running tidegate.
    Purge(Purge),
    /// Put load on a server, this one or another, and report what it does.
    Load(load::Load),
    /// Say what this machine offers, whether that is fine, and what to change and why.
    Doctor(Doctor),
}

/// What `serve` was given.
#[derive(Debug, Default)]
pub(crate) struct Serve {
    pub(crate) config: Option<PathBuf>,
    /// Long flags without dashes and their values, in order.
    pub(crate) flags: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The configuration file.
    pub(crate) file: PathBuf,
    /// Tell the outcome as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Format {
    /// Block devices or existing files; they become one store.
    #[arg(required = true)]
    pub(crate) device: Vec<PathBuf>,
    /// Overwrite what a device holds.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// Devices of a store.
    #[arg(required = true)]
    pub(crate) device: Vec<PathBuf>,
    /// List every object.
    #[arg(long)]
    pub(crate) objects: bool,
    /// Read everything and compare the checksums; exit code 1 when one is wrong.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Tell it as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Judge by the settings of this configuration file, and look at its devices.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Tell it as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[group(skip)]
#[command(group = ArgGroup::new("what").required(true).args(["url", "prefix", "tag", "all"]))]
pub(crate) struct Purge {
    /// The URL, as clients ask for it.
    pub(crate) url: Option<String>,
    /// All URLs that begin so: scheme and host whole, and as much of the path as is meant.
    #[arg(long, value_name = "P")]
    pub(crate) prefix: Option<String>,
    /// All responses that their origin gave this tag.
    #[arg(long, value_name = "T")]
    pub(crate) tag: Option<String>,
    /// Everything.
    #[arg(long)]
    pub(crate) all: bool,
    /// Only make it stale: it may still be served while it is validated, or when its origin fails.
    #[arg(long)]
    pub(crate) soft: bool,
    /// Come back only when no crash can undo it.
    #[arg(long)]
    pub(crate) durable: bool,
    /// Tell the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Where the admin interface listens.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:3129")]
    pub(crate) admin: std::net::SocketAddr,
}

const CONFIG: &str = "config";

impl Args for Serve {
    fn augment_args(command: clap::Command) -> clap::Command {
        let config = Arg::new(CONFIG)
            .short('c')
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Configuration file (TOML)");
        command.arg(config).args(list_flags()).args(setting_flags())
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

fn list_flags() -> impl Iterator<Item = Arg> {
    LISTS.iter().map(|list| {
        Arg::new(list.flag)
            .long(list.flag)
            .value_name(list.flag_value)
            .action(ArgAction::Append)
            .help(format!("{} [default: {}]", list.help, list.default))
    })
}

/// Settings with a name of their own are in every help; the others only in the long one.
fn setting_flags() -> impl Iterator<Item = Arg> {
    SETTINGS.iter().map(|setting| {
        let default = setting.default_words().replace(['`', '"'], "");
        let heading = (!setting.has_own_flag()).then_some("More settings (all can stand in the file)");
        Arg::new(setting.flag())
            .long(setting.flag())
            .value_name(setting.value_name())
            .allow_hyphen_values(true)
            .hide_short_help(!setting.has_own_flag())
            .help_heading(heading)
            .help(format!("{} [default: {default}]", setting.help))
    })
}

impl FromArgMatches for Serve {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let names = LISTS.iter().map(|list| list.flag.to_owned()).chain(SETTINGS.iter().map(|s| s.flag()));
        let flags = names.flat_map(|name| values(matches, &name)).collect();
        Ok(Self { config: matches.get_one(CONFIG).cloned(), flags })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn values(matches: &ArgMatches, name: &str) -> Vec<(String, String)> {
    let words = matches.get_many::<String>(name).into_iter().flatten();
    words.map(|word| (name.to_owned(), word.clone())).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_are_taken_with_and_without_the_command() {
        for words in [
            &["tidegate", "--listen", "[::1]:1", "--origin", "http://a", "--listen", "[::1]:2"][..],
            &["tidegate", "serve", "--listen", "[::1]:1", "--origin", "http://a", "--listen", "[::1]:2"],
        ] {
            let cli = Cli::try_parse_from(words).unwrap();
            let Command::Serve(serve) = cli.command.unwrap_or(Command::Serve(cli.serve)) else {
                panic!("serves")
            };
            let flags: Vec<_> = serve.flags.iter().map(|(f, w)| (f.as_str(), w.as_str())).collect();
            assert_eq!(flags, [("listen", "[::1]:1"), ("listen", "[::1]:2"), ("origin", "http://a")]);
        }
    }

    #[test]
    fn every_setting_is_a_flag() {
        for setting in SETTINGS {
            let flag = format!("--{}", setting.flag());
            let cli = Cli::try_parse_from(["tidegate", &flag, "-1"]).unwrap();
            assert_eq!(cli.serve.flags, [(setting.flag(), "-1".to_owned())], "{flag}");
        }
    }

    #[test]
    fn the_short_help_fits_a_screen() {
        let help = Cli::command().render_help().to_string();
        assert!(help.contains("--memory") && !help.contains("--timeouts-drain"), "{help}");
        assert!(help.lines().count() < 45, "{help}");
    }
}
