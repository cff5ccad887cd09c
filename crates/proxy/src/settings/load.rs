//! From nothing, a file and a command line to a checked [`Settings`]: defaults first, then the file, then the flags.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io, thread};

use super::given::Given;
use super::lists::LISTS;
use super::mistake::{Mistake, Spot, Wrong};
use super::table::{Applies, SETTINGS};
use super::{DeviceSpec, Listen, Mode, Settings, Site, check, file};

/// What is read.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The configuration file, if there is one.
    pub file: Option<ConfigFile>,
    /// Long flags without dashes and their values, in order. A flag beats the file.
    pub flags: Vec<(String, String)>,
}

/// The text of a configuration file.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// As the operator named it.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

impl ConfigFile {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read or is not UTF-8.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), text: fs::read_to_string(path)? })
    }
}

/// What the defaults depend on.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `XDG_CACHE_HOME`.
    pub xdg_cache_home: Option<OsString>,
    /// `HOME`.
    pub home: Option<OsString>,
    /// CPUs that this process may use.
    pub cpus: usize,
}

impl Environment {
    /// As this process sees it.
    #[must_use]
    pub fn of_process() -> Self {
        Self {
            xdg_cache_home: env::var_os("XDG_CACHE_HOME"),
            home: env::var_os("HOME"),
            cpus: thread::available_parallelism().map_or(1, Into::into),
        }
    }

    /// The store of someone who named none. A relative `XDG_CACHE_HOME` counts as unset (XDG Base Directory
    /// Specification); a service without a home has its caches under `/var/cache`.
    fn default_device(&self) -> DeviceSpec {
        let absolute =
            |dir: &Option<OsString>| dir.as_ref().map(PathBuf::from).filter(|dir| dir.is_absolute());
        let caches = absolute(&self.xdg_cache_home)
            .or_else(|| absolute(&self.home).map(|home| home.join(".cache")))
            .unwrap_or_else(|| PathBuf::from("/var/cache"));
        DeviceSpec { path: caches.join("tidegate/store"), size: Some(1 << 30) }
    }
}

/// Settings on their way, with the places that cross-checks may have to point at.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) settings: Settings,
    /// Each with whether its mode was given.
    pub(super) listen: Vec<(Listen, bool, Spot)>,
    pub(super) sites: Vec<DraftSite>,
    pub(super) devices: Vec<(DeviceSpec, Spot)>,
    /// Whether any was written, even one that could not be read.
    pub(super) listen_given: bool,
    pub(super) sites_given: bool,
    pub(super) devices_given: bool,
}

/// A site with the place of each of its hosts and origins.
pub(super) struct DraftSite {
    pub(super) site: Site,
    pub(super) host_spots: Vec<Spot>,
    pub(super) origin_spots: Vec<Spot>,
}

/// Reads and checks everything.
///
/// # Errors
/// Every mistake that was found, in the order of the file and then of the command line.
pub fn load(sources: &Sources, environment: &Environment) -> Result<Settings, Vec<Mistake>> {
    let mut draft = Draft::default();
    let mut wrongs = Vec::new();
    for setting in SETTINGS {
        setting.field.reset(&mut draft.settings, environment);
    }
    if let Some(given) = &sources.file {
        file::read(&given.text, &mut draft, &mut wrongs);
    }
    read_flags(&sources.flags, &mut draft, &mut wrongs);
    fill_in(&mut draft, environment);
    check::check(&draft, &mut wrongs);
    if wrongs.is_empty() {
        return Ok(draft.finish());
    }
    wrongs.sort_by_key(Wrong::order);
    Err(wrongs.into_iter().map(|wrong| wrong.located(sources.file.as_ref())).collect())
}

fn read_flags(flags: &[(String, String)], draft: &mut Draft, wrongs: &mut Vec<Wrong>) {
    for list in LISTS {
        let values: Vec<_> = flags
            .iter()
            .filter(|(flag, _)| flag == list.flag)
            .map(|(flag, word)| Given::on_command_line(flag, word))
            .collect();
        if !values.is_empty() {
            list.read_flags(&values, draft, wrongs);
        }
    }
    for (flag, word) in flags {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.flag() == *flag) else { continue };
        let given = Given::on_command_line(flag, word);
        if let Err(more) = setting.field.set(setting.name, &mut draft.settings, &given) {
            wrongs.extend(more);
        }
    }
}

/// What was left out and depends on the rest.
fn fill_in(draft: &mut Draft, environment: &Environment) {
    let mode = if draft.sites_given { Mode::Reverse } else { Mode::Forward };
    if !draft.listen_given {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 3128));
        draft.listen.push((Listen { address, mode }, false, Spot::Default));
    }
    for (listen, mode_given, _) in &mut draft.listen {
        if !*mode_given {
            listen.mode = mode;
        }
    }
    if !draft.devices_given {
        draft.devices.push((environment.default_device(), Spot::Default));
    }
}

impl Draft {
    fn finish(self) -> Settings {
        let mut settings = self.settings;
        settings.listen = self.listen.into_iter().map(|(listen, ..)| listen).collect();
        settings.sites = self.sites.into_iter().map(|draft| draft.site).collect();
        settings.store.devices = self.devices.into_iter().map(|(device, _)| device).collect();
        settings
    }
}

/// What a running proxy may take over from a configuration that was read anew: `fresh`, except where a change needs
/// a restart. Those settings keep their `current` value and are named.
#[must_use]
pub fn reload(current: &Settings, mut fresh: Settings) -> (Settings, Vec<&'static str>) {
    let mut kept = Vec::new();
    for setting in SETTINGS.iter().filter(|setting| setting.applies == Applies::AtStart) {
        if setting.show(current) != setting.show(&fresh) {
            kept.push(setting.name);
            setting.field.copy(current, &mut fresh);
        }
    }
    if fresh.listen != current.listen {
        kept.push("listen");
        fresh.listen.clone_from(&current.listen);
    }
    if fresh.store.devices != current.store.devices {
        kept.push("store.device");
        fresh.store.devices.clone_from(&current.store.devices);
    }
    (fresh, kept)
}
