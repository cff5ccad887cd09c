#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use super::table::SETTINGS;
use super::*;
use crate::testing::{fuzz_time, text};

fn environment() -> Environment {
    Environment { xdg_cache_home: None, home: Some("/home/op".into()), cpus: 3 }
}

fn with(file: Option<&str>, flags: &[(&str, &str)]) -> Result<Settings, Vec<Mistake>> {
    let sources = Sources {
        file: file.map(|text| ConfigFile { path: "t.toml".into(), text: text.into() }),
        flags: flags.iter().map(|(flag, word)| ((*flag).into(), (*word).into())).collect(),
    };
    load(&sources, &environment())
}

fn told(result: Result<Settings, Vec<Mistake>>) -> String {
    let mistakes = result.unwrap_err();
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn nothing_given_is_the_forward_proxy_that_the_manual_promises() {
    let settings = with(None, &[]).unwrap();
    assert_eq!(settings.workers, 3);
    let listen = Listen { address: "127.0.0.1:3128".parse().unwrap(), mode: Mode::Forward };
    assert_eq!(settings.listen, [listen]);
    assert_eq!(settings.admin, Some("127.0.0.1:3129".parse().unwrap()));
    assert_eq!(settings.memory.size, 256 << 20);
    let device = DeviceSpec { path: "/home/op/.cache/tidegate/store".into(), size: Some(1 << 30) };
    assert_eq!(settings.store.devices, [device]);
    assert_eq!(settings.store.checkpoint, Duration::from_secs(2));
    assert_eq!(settings.forward.allow, ["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]);
    assert_eq!(settings.forward.connect_ports, [443]);
    assert_eq!(settings.log, Log { access: None, format: LogFormat::Combined });
    assert!(settings.fill.finish_without_client);
    assert!(settings.sites.is_empty());
}

#[test]
fn the_default_store_is_where_caches_belong() {
    let rows = [
        (Some("/x"), Some("/h"), "/x/tidegate/store"),
        (Some("relative"), Some("/h"), "/h/.cache/tidegate/store"),
        (None, Some("/h"), "/h/.cache/tidegate/store"),
        (None, Some(""), "/var/cache/tidegate/store"),
        (None, None, "/var/cache/tidegate/store"),
    ];
    for (xdg, home, expected) in rows {
        let environment =
            Environment { xdg_cache_home: xdg.map(Into::into), home: home.map(Into::into), cpus: 1 };
        let settings = load(&Sources::default(), &environment).unwrap();
        assert_eq!(settings.store.devices[0].path, Path::new(expected), "{xdg:?} {home:?}");
    }
}

#[test]
fn the_file_of_the_manual_is_read_as_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let device = dir.path().join("formatted");
    fs::write(&device, "").unwrap();
    let text = format!(
        r#"
workers = 4
[[listen]]
address = "0.0.0.0:8080"
mode = "reverse"
[[listen]]
address = "[::1]:3128"
mode = "forward"
[[store.device]]
path = "{}"
[[store.device]]
path = "{}/new"
size = "64GiB"
[store]
io = "direct"
checkpoint = "500ms"
[memory]
size = "1GiB"
[[site]]
hosts = ["WWW.example.com", "*.example.org"]
origins = ["http://10.0.0.1:8080", "http://10.0.0.2"]
[forward]
allow = ["10.0.0.0/8", "::1"]
connect_ports = [443, 8443]
[overload]
kernel_cpu = 0.5
[log]
access = "/var/log/tidegate.log"
format = "json"
[admin]
listen = "off"
[timeouts]
client_head = "250ms"
[fill]
finish_without_client = false
"#,
        device.display(),
        dir.path().display()
    );
    let settings = with(Some(&text), &[]).unwrap_or_else(|m| panic!("{}", told(Err(m))));
    assert_eq!(settings.workers, 4);
    assert_eq!(settings.listen.iter().map(|l| l.mode).collect::<Vec<_>>(), [Mode::Reverse, Mode::Forward]);
    assert_eq!(settings.store.devices.iter().map(|d| d.size).collect::<Vec<_>>(), [None, Some(64 << 30)]);
    assert_eq!(settings.store.io, StoreIo::Direct);
    assert_eq!(settings.store.checkpoint, Duration::from_millis(500));
    assert_eq!(settings.memory.size, 1 << 30);
    assert_eq!(settings.sites[0].hosts, ["www.example.com", "*.example.org"]);
    assert_eq!(settings.sites[0].origins[1].authority(), "10.0.0.2:80");
    assert_eq!(settings.forward.allow, ["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]);
    assert_eq!(settings.forward.connect_ports, [443, 8443]);
    assert_eq!(settings.overload.kernel_cpu, 0.5);
    assert_eq!(settings.log.access, Some(LogTarget::Path("/var/log/tidegate.log".into())));
    assert_eq!(settings.log.format, LogFormat::Json);
    assert_eq!(settings.admin, None);
    assert_eq!(settings.timeouts.client_head, Duration::from_millis(250));
    assert!(!settings.fill.finish_without_client);
}

#[test]
fn flags_beat_the_file() {
    let file = "workers = 2\n[memory]\nsize = \"1GiB\"\n[[listen]]\naddress = \"127.0.0.1:1\"\n";
    let flags = [
        ("memory", "64MiB"),
        ("listen", "127.0.0.1:8080"),
        ("listen", "[::1]:8080"),
        ("origin", "http://127.0.0.1:9000"),
        ("origin", "http://127.0.0.1:9001"),
        ("store", "path=./store,size=4GiB"),
        ("timeouts-drain", "1s"),
        ("fill-finish-without-client", "false"),
        ("forward-connect-ports", "443,563"),
    ];
    let settings = with(Some(file), &flags).unwrap();
    assert_eq!((settings.workers, settings.memory.size), (2, 64 << 20));
    assert_eq!(settings.listen.len(), 2);
    assert!(settings.listen.iter().all(|l| l.mode == Mode::Reverse), "--origin makes a reverse proxy");
    assert_eq!(settings.sites.len(), 1);
    assert_eq!((settings.sites[0].hosts[0].as_str(), settings.sites[0].origins.len()), ("*", 2));
    assert_eq!(settings.store.devices, [DeviceSpec { path: "./store".into(), size: Some(4 << 30) }]);
    assert_eq!(settings.timeouts.drain, Duration::from_secs(1));
    assert!(!settings.fill.finish_without_client);
    assert_eq!(settings.forward.connect_ports, [443, 563]);
}

/// Each mistake with everything that the operator is told about it. `TIDEGATE_BLESS=1` writes the file anew.
#[test]
fn every_mistake_is_told_with_its_place_and_what_would_be_right() {
    const GOLDEN: &str = include_str!("mistakes.txt");
    let mut now = String::new();
    for case in GOLDEN.split("### f").skip(1) {
        let (given, _) = case.split_once("### told\n").unwrap();
        let result = match given.split_once('\n').unwrap() {
            ("ile", text) => with(Some(text), &[]),
            ("lags", flags) => {
                with(None, &flags.lines().map(|flag| flag.split_once('=').unwrap()).collect::<Vec<_>>())
            }
            (other, _) => panic!("f{other} is no kind of case"),
        };
        now += &format!("### f{given}### told\n{}\n", told(result));
    }
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        return fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/settings/mistakes.txt"), now).unwrap();
    }
    similar_lines(&now, GOLDEN);
}

/// Compares by line, so that a failure names the first line that differs.
fn similar_lines(now: &str, golden: &str) {
    for (number, (now, golden)) in now.lines().zip(golden.lines()).enumerate() {
        assert_eq!(now, golden, "line {}", number + 1);
    }
    assert_eq!(now.lines().count(), golden.lines().count());
}

#[test]
fn carets_stay_in_place_behind_tabs_and_wide_characters() {
    let told = told(with(Some("\tworkers = \"\u{fc}\" # \u{1b}\r\n"), &[]));
    assert!(told.contains("not TOML"), "a control character is no TOML: {told}");
    assert!(!told.contains('\u{1b}'), "and does not reach the terminal: {told}");
    let told = self::told(with(Some("\tworkers = \"\u{fc}\"\r\n"), &[]));
    assert!(told.contains("t.toml:1:12: "), "{told}");
    assert!(told.contains("\n    | \t          ^^^\n"), "{told}");
}

#[test]
fn every_default_keeps_its_own_bounds_and_reads_back_from_what_is_shown() {
    let defaults = with(None, &[]).unwrap();
    for setting in SETTINGS {
        let shown = setting.show(&defaults);
        let (section, key) = setting.name.rsplit_once('.').unwrap_or(("", setting.name));
        let header = if section.is_empty() { String::new() } else { format!("[{section}]\n") };
        let read = with(Some(&format!("{header}{key} = {shown}\n")), &[]);
        assert_eq!(read.as_ref(), Ok(&defaults), "{} = {shown}", setting.name);
    }
}

#[test]
fn names_and_flags_are_used_once() {
    let mut flags: Vec<_> = SETTINGS.iter().map(table::Setting::flag).collect();
    flags.extend(lists::LISTS.iter().map(|list| list.flag.to_owned()));
    let count = flags.len();
    flags.sort();
    flags.dedup();
    assert_eq!(flags.len(), count);
}

#[test]
fn a_reload_takes_over_what_it_can_and_names_the_rest() {
    let current = with(None, &[]).unwrap();
    let fresh =
        with(None, &[("workers", "9"), ("timeouts-drain", "1s"), ("origin", "http://10.0.0.1")]).unwrap();
    let (after, kept) = reload(&current, fresh);
    assert_eq!((after.workers, after.timeouts.drain), (3, Duration::from_secs(1)));
    assert_eq!(after.sites.len(), 1);
    assert_eq!(after.listen, current.listen);
    assert_eq!(kept, ["workers", "listen"]);
    assert_eq!(reload(&current, current.clone()), (current, vec![]));
}

#[test]
fn the_document_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        fs::write(path, docs::document()).unwrap();
    }
    assert_eq!(
        fs::read_to_string(path).unwrap(),
        docs::document(),
        "docs/settings.md is old: run `make docs`"
    );
}

proptest::proptest! {
    #[test]
    fn no_file_makes_the_reader_stumble(text in "[a-z_\\[\\]=\"., \n0-9\\{\\}-]{0,200}") {
        if let Err(mistakes) = with(Some(&text), &[]) {
            proptest::prop_assert!(!mistakes.is_empty());
            mistakes.iter().for_each(|mistake| drop(mistake.to_string()));
        }
    }
}

const TOML: &[&str] = &[
    "[",
    "]",
    "[[",
    "]]",
    "=",
    "\"",
    "'",
    "\"\"\"",
    "{",
    "}",
    ",",
    "\n",
    " ",
    "#",
    ".",
    "\\u",
    "\0",
    "\u{e4}",
    "0",
    "-1",
    "1e9",
    "0x",
    "true",
    "1979-05-27",
    "workers",
    "listen",
    "address",
    "mode",
    "\"reverse\"",
    "site",
    "hosts",
    "origins",
    "store",
    "device",
    "path",
    "size",
    "\"4GiB\"",
    "forward",
    "allow",
    "\"127.0.0.0/8\"",
    "connect_ports",
    "timeouts",
    "client_head",
    "\"10s\"",
    "log",
    "access",
    "format",
];

#[test]
fn hostile_files_and_flags_are_read_or_refused_in_words() {
    let judge = |outcome: Result<Settings, Vec<Mistake>>| {
        if let Err(mistakes) = outcome {
            assert!(!mistakes.is_empty() && mistakes.iter().all(|mistake| !mistake.to_string().is_empty()));
        }
    };
    bolero::check!().with_test_time(fuzz_time()).for_each(|bytes: &[u8]| {
        let text = text(bytes, TOML);
        judge(with(Some(&text), &[]));
        judge(with(Some(&String::from_utf8_lossy(bytes)), &[]));
        let setting = &SETTINGS[bytes.len() % SETTINGS.len()];
        judge(with(None, &[(&setting.flag(), &text)]));
    });
}
