//! The settings that come in any number: listeners, sites and devices. In the file each is an array of tables; on the
//! command line each is a flag that may be repeated, and replaces what the file says.

use super::given::{Given, Value};
use super::load::{Draft, DraftSite};
use super::mistake::{Spot, Wrong};
use super::nearest::nearest;
use super::units::{self, DEVICE_FORMS, HOST_FORMS, ORIGIN_FORMS, SIZE_FORMS};
use super::{DeviceSpec, Listen, Mode, Site, field};

/// A repeatable setting.
pub struct List {
    /// The dotted name of the array of tables.
    pub name: &'static str,
    /// The long flag without dashes.
    pub flag: &'static str,
    /// What the flag takes.
    pub flag_value: &'static str,
    /// What one entry is.
    pub help: &'static str,
    /// What there is when nothing is given.
    pub default: &'static str,
    /// The keys of an entry.
    pub keys: &'static [Key],
    read_entry: fn(&Entry<'_, '_>, &mut Draft, &mut Vec<Wrong>),
    read_flags: fn(&[Given<'_>], &mut Draft, &mut Vec<Wrong>),
}

/// One key of an entry.
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The accepted forms.
    pub forms: &'static str,
    /// What it decides.
    pub help: &'static str,
    /// Whether an entry is wrong without it.
    pub required: bool,
}

/// Smallest and largest size of a store file.
pub(super) const DEVICE_BYTES: std::ops::RangeInclusive<u64> = 8 << 20..=1 << 50;

const ADDRESS_FORMS: &str = "an IP address and a port: \"0.0.0.0:8080\", \"[::1]:8080\"";
const MODE_FORMS: &str = "\"forward\" or \"reverse\"";
const PATH_FORMS: &str = "the path of a block device or a file";

/// Every list, in the order of the documents.
pub static LISTS: &[List] = &[
    List {
        name: "listen",
        flag: "listen",
        flag_value: "ADDR",
        help: "An address that clients connect to",
        default: "127.0.0.1:3128",
        keys: &[
            Key {
                name: "address",
                forms: ADDRESS_FORMS,
                help: "Where to listen; port 0 lets the kernel choose",
                required: true,
            },
            Key {
                name: "mode",
                forms: MODE_FORMS,
                help: "What is spoken there; when left out, reverse if there are sites and forward if not",
                required: false,
            },
        ],
        read_entry: read_listen,
        read_flags: listen_flags,
    },
    List {
        name: "site",
        flag: "origin",
        flag_value: "URL",
        help: "Hosts that the reverse listeners speak for, and where their misses go",
        default: "none, a forward proxy only",
        keys: &[
            Key { name: "hosts", forms: HOST_FORMS, help: "Host names of the site", required: true },
            Key { name: "origins", forms: ORIGIN_FORMS, help: "Origin servers", required: true },
        ],
        read_entry: read_site,
        read_flags: origin_flags,
    },
    List {
        name: "store.device",
        flag: "store",
        flag_value: "SPEC",
        help: "A raw block device or a file; the store is striped over all",
        default: "path=$XDG_CACHE_HOME/tidegate/store,size=1GiB (without that variable ~/.cache, without a home /var/cache)",
        keys: &[
            Key { name: "path", forms: PATH_FORMS, help: "Block device or file", required: true },
            Key {
                name: "size",
                forms: SIZE_FORMS,
                help: "For a file: it is created with this size and formatted at first use. Without it the file or device must have been formatted",
                required: false,
            },
        ],
        read_entry: read_device,
        read_flags: store_flags,
    },
];

/// The list of this dotted name.
pub(super) fn find(name: &str) -> Option<&'static List> {
    LISTS.iter().find(|list| list.name == name)
}

/// One table of an array, its keys known to be known.
struct Entry<'l, 'a> {
    list: &'l List,
    spot: Spot,
    keys: Vec<(&'static str, Given<'a>)>,
}

impl List {
    /// Reads the array of tables.
    pub(super) fn read(&self, file: &str, given: &Given<'_>, draft: &mut Draft, wrongs: &mut Vec<Wrong>) {
        let right = format!("[[{}]], with the keys {}", self.name, self.key_names());
        let Value::List(tables) = &given.value else {
            return wrongs.push(given.is_not(self.name, "an array of tables", &right));
        };
        for table in tables {
            match &table.value {
                Value::Table(keys) => {
                    let entry = self.entry(file, table, keys, wrongs);
                    (self.read_entry)(&entry, draft, wrongs);
                }
                _ => wrongs.push(table.is_not(self.name, "a table", &right)),
            }
        }
    }

    /// Reads all values of the flag at once; there is at least one.
    pub(super) fn read_flags(&self, values: &[Given<'_>], draft: &mut Draft, wrongs: &mut Vec<Wrong>) {
        (self.read_flags)(values, draft, wrongs);
    }

    fn entry<'a>(
        &self,
        file: &str,
        table: &Given<'a>,
        keys: &'a toml::de::DeTable<'a>,
        wrongs: &mut Vec<Wrong>,
    ) -> Entry<'_, 'a> {
        let mut entry = Entry { list: self, spot: table.spot.clone(), keys: Vec::new() };
        for (key, value) in keys {
            match self.keys.iter().find(|known| known.name == key.get_ref().as_ref()) {
                Some(known) => entry.keys.push((known.name, Given::in_file(file, value))),
                None => wrongs.push(self.unknown_key(key.get_ref(), Spot::Bytes(key.span()))),
            }
        }
        entry
    }

    fn unknown_key(&self, key: &str, spot: Spot) -> Wrong {
        let right = nearest(key, self.keys.iter().map(|k| k.name)).map_or_else(
            || format!("the keys here are {}", self.key_names()),
            |near| format!("perhaps {near}"),
        );
        Wrong::new(&spot, &format!("{}.{key}", self.name), "no such key", right)
    }

    fn key_names(&self) -> String {
        self.keys.iter().map(|key| key.name).collect::<Vec<_>>().join(" and ")
    }
}

impl<'a> Entry<'_, 'a> {
    fn get(&self, key: &str) -> Option<&Given<'a>> {
        self.keys.iter().find(|(name, _)| *name == key).map(|(_, given)| given)
    }

    /// The value of a required key; its absence is told.
    fn require(&self, key: &str, wrongs: &mut Vec<Wrong>) -> Option<&Given<'a>> {
        let found = self.get(key);
        if found.is_none() {
            let forms = self.forms(key);
            let what = format!("this entry has no {key}");
            wrongs.push(Wrong::new(&self.spot, self.list.name, what, format!("{key} = {forms}")));
        }
        found
    }

    /// Reads a key's value, or tells why not.
    fn read<T>(
        &self,
        key: &str,
        given: &Given<'a>,
        noun: &str,
        read: impl Fn(&Given<'a>) -> Option<T>,
        wrongs: &mut Vec<Wrong>,
    ) -> Option<T> {
        let value = read(given);
        if value.is_none() {
            wrongs.push(given.is_not(&self.dotted(key), noun, self.forms(key)));
        }
        value
    }

    fn dotted(&self, key: &str) -> String {
        format!("{}.{key}", self.list.name)
    }

    fn forms(&self, key: &str) -> &'static str {
        self.list.keys.iter().find(|k| k.name == key).map_or("", |k| k.forms)
    }
}

fn read_listen(entry: &Entry<'_, '_>, draft: &mut Draft, wrongs: &mut Vec<Wrong>) {
    draft.listen_given = true;
    let mode = entry.get("mode").map(|given| {
        let mode =
            |g: &Given<'_>| [Mode::Forward, Mode::Reverse].into_iter().find(|m| g.text() == Some(m.word()));
        entry.read("mode", given, "a mode", mode, wrongs).unwrap_or_default()
    });
    let Some(given) = entry.require("address", wrongs) else { return };
    let address = |g: &Given<'_>| g.text().and_then(|t| t.parse().ok());
    if let Some(address) = entry.read("address", given, "an address with a port", address, wrongs) {
        draft.listen.push((
            Listen { address, mode: mode.unwrap_or_default() },
            mode.is_some(),
            given.spot.clone(),
        ));
    }
}

fn listen_flags(values: &[Given<'_>], draft: &mut Draft, wrongs: &mut Vec<Wrong>) {
    draft.listen_given = true;
    draft.listen.clear();
    for given in values {
        match given.text().and_then(|text| text.parse().ok()) {
            Some(address) => {
                draft.listen.push((Listen { address, mode: Mode::Forward }, false, given.spot.clone()));
            }
            None => wrongs.push(given.is_not("listen", "an address with a port", ADDRESS_FORMS)),
        }
    }
}

fn read_site(entry: &Entry<'_, '_>, draft: &mut Draft, wrongs: &mut Vec<Wrong>) {
    draft.sites_given = true;
    let hosts = texts(entry, "hosts", "host", units::parse_host, wrongs);
    let origins = texts(entry, "origins", "origin", units::parse_origin, wrongs);
    let (Some(hosts), Some(origins)) = (hosts, origins) else { return };
    let spots =
        |key| entry.get(key).and_then(Given::list).unwrap_or_default().into_iter().map(|given| given.spot);
    let (host_spots, origin_spots) = (spots("hosts").collect(), spots("origins").collect());
    draft.sites.push(DraftSite { site: Site { hosts, origins }, host_spots, origin_spots });
}

/// A list of texts, at least one, each told apart when wrong.
fn texts<T>(
    entry: &Entry<'_, '_>,
    key: &str,
    noun: &str,
    parse: fn(&str) -> Result<T, units::Refusal>,
    wrongs: &mut Vec<Wrong>,
) -> Option<Vec<T>> {
    let given = entry.require(key, wrongs)?;
    let parts = entry.read(key, given, &format!("a list of {noun}s"), Given::list, wrongs)?;
    if parts.is_empty() {
        let what = format!("no {noun} is named");
        wrongs.push(Wrong::new(&given.spot, &entry.dotted(key), what, entry.forms(key)));
    }
    let before = wrongs.len();
    let mut values = Vec::new();
    for part in &parts {
        match part.text().map(parse) {
            Some(Ok(value)) => values.push(value),
            Some(Err(refusal)) => wrongs.push(refused(part, &entry.dotted(key), refusal, entry.forms(key))),
            None => wrongs.push(part.is_not(
                &entry.dotted(key),
                &format!("the text of one {noun}"),
                entry.forms(key),
            )),
        }
    }
    (before == wrongs.len() && !values.is_empty()).then_some(values)
}

fn refused(given: &Given<'_>, setting: &str, refusal: units::Refusal, forms: &str) -> Wrong {
    Wrong::new(&given.spot, setting, format!("{} {refusal}", given.shown), forms)
}

/// All origins of the command line make one site, for every host.
fn origin_flags(values: &[Given<'_>], draft: &mut Draft, wrongs: &mut Vec<Wrong>) {
    draft.sites_given = true;
    draft.sites.clear();
    let mut origins = Vec::new();
    for given in values {
        match units::parse_origin(given.text().unwrap_or_default()) {
            Ok(origin) => origins.push(origin),
            Err(refusal) => wrongs.push(refused(given, "site.origins", refusal, ORIGIN_FORMS)),
        }
    }
    if !origins.is_empty() {
        let spots: Vec<_> = values.iter().map(|given| given.spot.clone()).collect();
        let site = Site { hosts: vec!["*".into()], origins };
        draft.sites.push(DraftSite { site, host_spots: spots.clone(), origin_spots: spots });
    }
}

fn read_device(entry: &Entry<'_, '_>, draft: &mut Draft, wrongs: &mut Vec<Wrong>) {
    draft.devices_given = true;
    let size = entry.get("size").map(|given| {
        let bytes = entry.read("size", given, "a size", field::size, wrongs)?;
        device_size_in_bounds(given, bytes, wrongs)
    });
    let Some(given) = entry.require("path", wrongs) else { return };
    let text = |g: &Given<'_>| g.text().filter(|t| !t.is_empty()).map(Into::into);
    let path = entry.read("path", given, "a path", text, wrongs);
    // A size that was given and refused makes no device: it would be taken for one without a size.
    let size = match size {
        Some(None) => return,
        Some(size) => size,
        None => None,
    };
    if let Some(path) = path {
        draft.devices.push((DeviceSpec { path, size }, given.spot.clone()));
    }
}

fn device_size_in_bounds(given: &Given<'_>, bytes: u64, wrongs: &mut Vec<Wrong>) -> Option<u64> {
    let inside = DEVICE_BYTES.contains(&bytes);
    if !inside {
        let bounds = format!(
            "between {} and {}",
            units::show_size(*DEVICE_BYTES.start()),
            units::show_size(*DEVICE_BYTES.end())
        );
        let what = format!("{} is out of bounds", given.shown);
        wrongs.push(Wrong::new(&given.spot, "store.device.size", what, bounds));
    }
    inside.then_some(bytes)
}

fn store_flags(values: &[Given<'_>], draft: &mut Draft, wrongs: &mut Vec<Wrong>) {
    draft.devices_given = true;
    draft.devices.clear();
    for given in values {
        match units::parse_device(given.text().unwrap_or_default()) {
            Ok(spec) => {
                if spec.size.is_none_or(|bytes| device_size_in_bounds(given, bytes, wrongs).is_some()) {
                    draft.devices.push((spec, given.spot.clone()));
                }
            }
            Err(refusal) => wrongs.push(refused(given, "store.device", refusal, DEVICE_FORMS)),
        }
    }
}
