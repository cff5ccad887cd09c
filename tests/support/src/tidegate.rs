//! The process under test: started as a user starts it, stopped as an operator does, ended by its id in any case.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::admin::Metrics;
use crate::client::{Ask, Client};
use crate::message::Response;
use crate::origin::Address;
use crate::port::Reserved;
use crate::process::end;
use crate::{PATIENCE, eventually};

/// How a Tidegate is to be started.
pub struct Builder {
    listen: IpAddr,
    arguments: Vec<String>,
    toml: String,
    memory: String,
    store: Store,
    workers: usize,
    /// The listener and its mode stand in the configuration file, not on the command line.
    reverse_by_file: bool,
    environment: Vec<(String, String)>,
    /// Each system call of this name fails with this error.
    failing: Option<(String, String)>,
    /// A command that takes the binary as its last argument and becomes it.
    under: Vec<String>,
}

enum Store {
    /// A file of this size in the instance's own directory.
    Own(String),
    /// These `--store` arguments.
    Given(Vec<String>),
}

/// A running Tidegate. Killed when dropped.
pub struct Tidegate {
    builder: Builder,
    child: Child,
    admin: Reserved,
    listen: Reserved,
    home: TempDir,
}

/// A finished run of a command.
#[derive(Debug)]
pub struct Run {
    /// Its exit code; -1 when a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Tidegate {
    /// A reverse proxy for every host in front of `origin`.
    pub fn reverse(origin: &impl Address) -> Builder {
        Builder::new().arg("--origin").arg(&origin.url(""))
    }

    /// A forward proxy.
    pub fn forward() -> Builder {
        Builder::new()
    }

    /// A reverse proxy for the `[[site]]` tables in `sites`.
    pub fn reverse_sites(sites: &str) -> Builder {
        Builder { reverse_by_file: true, ..Builder::new() }.toml(sites)
    }

    /// Runs the binary with these arguments to its end.
    #[track_caller]
    pub fn run(arguments: &[&str]) -> Run {
        Run::of(binary().args(arguments).output().expect("run the binary"))
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.listen.address()
    }

    /// Where the admin interface listens.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The instance's own directory.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Its store file, when it has its own.
    pub fn store_path(&self) -> PathBuf {
        self.home.path().join("store")
    }

    /// Its configuration file, when it has one.
    pub fn configuration_path(&self) -> PathBuf {
        self.home.path().join("tidegate.toml")
    }

    /// A new client connection.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.address())
    }

    /// A `GET` on a connection of its own.
    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        self.ask(Ask::get(target))
    }

    /// A request on a connection of its own.
    #[track_caller]
    pub fn ask(&self, ask: Ask) -> Response {
        self.client().ask(ask)
    }

    /// Asks for `target` until the answer is a hit: the end of a large body reaches the client a moment before the
    /// object is complete in the cache.
    #[track_caller]
    pub fn warm(&self, target: &str) -> Response {
        let is_hit = |response: &Response| response.cache_parameters().iter().any(|p| p == "hit");
        eventually("the object is stored", || Some(self.get(target)).filter(is_hit))
    }

    /// A request to the admin interface.
    #[track_caller]
    pub fn admin(&self, ask: Ask) -> Response {
        let admin = self.admin_address();
        Client::connect(admin).ask(ask.host(&admin.to_string()))
    }

    /// All metrics of now.
    #[track_caller]
    pub fn metrics(&self) -> Metrics {
        Metrics::parse(&self.admin(Ask::get("/metrics")).expect(200).text())
    }

    /// All metrics once no client connection is left: then everything that was sent has been counted.
    #[track_caller]
    pub fn metrics_at_rest(&self) -> Metrics {
        let at_rest = || self.metrics().sum("tidegate_connections") == 0.0;
        eventually("all client connections end", || at_rest().then_some(()));
        // A scrape reads one number after the other: only the next one is sure to be whole.
        self.metrics()
    }

    /// The status document.
    #[track_caller]
    pub fn status(&self) -> Value {
        let response = self.admin(Ask::get("/api/v1/status")).expect(200);
        serde_json::from_slice(&response.body).expect("JSON")
    }

    /// Purges one URL through the admin interface.
    #[track_caller]
    pub fn purge(&self, url: &str) -> Response {
        self.purge_as(&json!({ "url": url }))
    }

    /// Purges what this request says, through the admin interface.
    #[track_caller]
    pub fn purge_as(&self, request: &Value) -> Response {
        let body = request.to_string();
        let ask = Ask::post("/api/v1/purge", body.as_bytes()).field("Content-Type", "application/json");
        self.admin(ask)
    }

    /// Waits until at least `count` objects are in the store.
    #[track_caller]
    pub fn wait_stored(&self, count: u64) {
        eventually("objects are stored", || {
            (self.metrics().sum("tidegate_store_objects") >= count as f64).then_some(())
        });
    }

    /// What it wrote to standard error so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.home.path().join("stderr")).unwrap_or_default()
    }

    /// What it wrote to standard output so far.
    pub fn stdout(&self) -> String {
        fs::read_to_string(self.home.path().join("stdout")).unwrap_or_default()
    }

    /// Sends a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        end(self.child.id(), signal);
    }

    /// Stops as an operator does, by SIGTERM, and expects exit code 0.
    #[track_caller]
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "stderr: {}", self.stderr());
    }

    /// Ends the process without warning.
    #[track_caller]
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    /// Waits for the process to end by itself.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        eventually("the process ends", || self.child.try_wait().expect("wait"))
    }

    /// Starts again, with the same store, address and arguments, and waits until all that is stored can be found.
    #[track_caller]
    pub fn restart(&mut self) {
        self.restart_at_once();
        self.wait_recovered();
    }

    /// Waits until all that is stored can be found.
    #[track_caller]
    pub fn wait_recovered(&self) {
        let is_complete = || self.status()["store"]["recovery"]["complete"].as_bool();
        eventually("the index is whole", || is_complete().filter(|complete| *complete));
    }

    /// Starts again, and waits for nothing but that it serves.
    #[track_caller]
    pub fn restart_at_once(&mut self) {
        self.child = self.builder.launch(&self.listen, &self.home, &self.admin);
    }
}

impl Drop for Tidegate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- stderr of tidegate\n{}", self.stderr());
        }
    }
}

impl Builder {
    fn new() -> Builder {
        Builder {
            listen: Ipv4Addr::LOCALHOST.into(),
            arguments: Vec::new(),
            toml: String::new(),
            memory: "16MiB".into(),
            store: Store::Own("128MiB".into()),
            workers: 2,
            reverse_by_file: false,
            environment: Vec::new(),
            failing: None,
            under: Vec::new(),
        }
    }

    /// Size of the memory tier.
    #[must_use]
    pub fn memory(self, size: &str) -> Builder {
        Builder { memory: size.into(), ..self }
    }

    /// Size of the instance's own store file.
    #[must_use]
    pub fn store(self, size: &str) -> Builder {
        Builder { store: Store::Own(size.into()), ..self }
    }

    /// A store elsewhere, as `--store` takes it; repeated, the cache is striped over all.
    #[must_use]
    pub fn store_at(mut self, spec: &str) -> Builder {
        match &mut self.store {
            Store::Given(specs) => specs.push(spec.into()),
            Store::Own(_) => self.store = Store::Given(vec![spec.into()]),
        }
        self
    }

    /// Number of worker threads; 1 where a case depends on which pooled connection is taken.
    #[must_use]
    pub fn workers(self, workers: usize) -> Builder {
        Builder { workers, ..self }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: &str) -> Builder {
        self.arguments.push(argument.into());
        self
    }

    /// Lines for a configuration file, used besides the flags.
    #[must_use]
    pub fn toml(mut self, lines: &str) -> Builder {
        self.toml += lines;
        self.toml.push('\n');
        self
    }

    /// An environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Builder {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Starts it by a command that becomes what it is given, such as `prlimit --memlock=0`.
    #[must_use]
    pub fn under(self, command: &[&str]) -> Builder {
        Builder { under: command.iter().map(ToString::to_string).collect(), ..self }
    }

    /// Lets every system call `call` of the process fail with `error` (`ENOSYS`). Needs `strace`.
    #[must_use]
    pub fn without(self, call: &str, error: &str) -> Builder {
        Builder { failing: Some((call.into(), error.into())), ..self }
    }

    /// Listens on `[::1]` instead of 127.0.0.1.
    #[must_use]
    pub fn ipv6(self) -> Builder {
        Builder { listen: Ipv6Addr::LOCALHOST.into(), ..self }
    }

    /// Starts it and waits until it says that it is ready and all that is stored can be found.
    ///
    /// # Panics
    /// When it ends instead, with what it said.
    #[track_caller]
    pub fn start(self) -> Tidegate {
        let tidegate = self.start_at_once();
        tidegate.wait_recovered();
        tidegate
    }

    /// Starts it, and waits for nothing but that it serves.
    ///
    /// # Panics
    /// As [`Builder::start`].
    #[track_caller]
    pub fn start_at_once(self) -> Tidegate {
        let home = TempDir::new().expect("a directory");
        let (listen, admin) = (Reserved::on(self.listen), Reserved::on(self.listen));
        let child = self.launch(&listen, &home, &admin);
        Tidegate { builder: self, child, admin, listen, home }
    }

    /// Starts it in the expectation that it refuses to serve, and returns how it ended.
    #[track_caller]
    pub fn refused(self) -> Run {
        let home = TempDir::new().expect("a directory");
        let (listen, admin) = (Reserved::on(self.listen), Reserved::on(self.listen));
        let mut child = self.spawn(&listen, &home, &admin);
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().expect("wait").is_none() {
            assert!(Instant::now() < deadline || child.kill().is_err(), "it serves: {}", errors(&home));
            std::thread::sleep(Duration::from_millis(2));
        }
        let status = child.wait().expect("wait");
        Run { code: status.code().unwrap_or(-1), stdout: String::new(), stderr: errors(&home) }
    }

    #[track_caller]
    fn launch(&self, listen: &Reserved, home: &TempDir, admin: &Reserved) -> Child {
        let mut child = self.spawn(listen, home, admin);
        if let Err(why) = wait_ready(&mut child, admin.address()) {
            panic!("tidegate did not start: {why}\n{}", errors(home));
        }
        child
    }

    fn spawn(&self, listen: &Reserved, home: &TempDir, admin: &Reserved) -> Child {
        let mut command = self.program();
        command.arg("serve").args(["--workers", &self.workers.to_string(), "--memory", &self.memory]);
        command.args(["--admin", &admin.address().to_string()]);
        let mut toml = self.toml.clone();
        if self.reverse_by_file {
            toml += &format!("[[listen]]\naddress = \"{}\"\nmode = \"reverse\"\n", listen.address());
        } else {
            command.args(["--listen", &listen.address().to_string()]);
        }
        // A disk that other tests keep busy may take longer than the product waits, and then what is stored is a miss.
        if !toml.contains("read_timeout") {
            command.args(["--store-read-timeout", "30s"]);
        }
        if !toml.is_empty() {
            let file = home.path().join("tidegate.toml");
            fs::write(&file, toml).expect("write the configuration");
            command.arg("-c").arg(file);
        }
        for spec in self.store_specs(home) {
            command.args(["--store", &spec]);
        }
        let stderr = fs::File::create(home.path().join("stderr")).expect("stderr file");
        let stdout = fs::File::create(home.path().join("stdout")).expect("stdout file");
        command.args(&self.arguments).envs(self.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().expect("start tidegate")
    }

    fn program(&self) -> Command {
        if let [command, arguments @ ..] = &self.under[..] {
            let mut command = Command::new(command);
            command.args(arguments).arg(binary().get_program());
            return command;
        }
        let Some((call, error)) = &self.failing else { return binary() };
        let mut command = Command::new("strace");
        // As a grandchild (-D), so that the process under test keeps the id that we know.
        command.args(["-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"]);
        command.args(["-e", &format!("trace={call}"), "-e", &format!("inject={call}:error={error}")]);
        command.arg(binary().get_program());
        command
    }

    fn store_specs(&self, home: &TempDir) -> Vec<String> {
        match &self.store {
            Store::Own(size) => vec![format!("path={},size={size}", home.path().join("store").display())],
            Store::Given(specs) => specs.clone(),
        }
    }
}

impl Run {
    fn of(output: Output) -> Run {
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Fails the test unless it ended with this exit code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Run {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }
}

/// The binary that cargo built for this test run.
fn binary() -> Command {
    let path = std::env::var("TIDEGATE").or_else(|_| std::env::var("CARGO_BIN_EXE_tidegate"));
    Command::new(path.expect("cargo names the binary under test"))
}

fn errors(home: &TempDir) -> String {
    fs::read_to_string(home.path().join("stderr")).unwrap_or_default()
}

/// Nothing outside the process announces readiness, so this asks.
fn wait_ready(child: &mut Child, admin: SocketAddr) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().expect("wait") {
            return Err(format!("ended with {status}"));
        }
        if is_ready(admin) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = child.kill();
    let _ = child.wait();
    Err("not ready in time".into())
}

fn is_ready(admin: SocketAddr) -> bool {
    let Ok(mut client) = Client::try_connect(admin) else { return false };
    let asked = client.try_send(Ask::get("/readyz").host(&admin.to_string()).bytes());
    asked.and_then(|()| client.try_head()).is_ok_and(|head| head.status() == 200)
}
