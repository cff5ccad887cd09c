//! New settings while serving.
//!
//! What must hold: a configuration with a mistake changes nothing and every mistake is told; what only a restart can
//! change keeps its value and is named; a request is served to its end under the settings that it began with. Nothing
//! is read on a worker.

use std::sync::Arc;

use tokio::sync::watch;

use crate::settings::{self, Settings};
use crate::worker::Shared;

/// Reads the settings anew; the error has each mistake in words.
pub type Reread<'r> = dyn Fn() -> Result<Settings, Vec<String>> + 'r;

/// The way of new settings to the workers.
pub struct Reload<'r> {
    reread: &'r Reread<'r>,
    generations: watch::Sender<Arc<Shared>>,
}

impl<'r> Reload<'r> {
    /// Begins with `first`; the receiver is for the workers.
    #[must_use]
    pub fn new(first: Arc<Shared>, reread: &'r Reread<'r>) -> (Self, watch::Receiver<Arc<Shared>>) {
        // Queue: what there is a fixed number of.
        let (generations, receiver) = watch::channel(first);
        (Self { reread, generations }, receiver)
    }

    /// Reads the settings anew and hands them to the workers, which serve new requests under them.
    pub fn run(&self) {
        match (self.reread)() {
            Ok(fresh) => self.take_over(fresh),
            Err(mistakes) => {
                mistakes.iter().for_each(|mistake| tracing::error!("{mistake}"));
                tracing::error!(
                    mistakes = mistakes.len(),
                    "configuration not taken over; nothing was changed"
                );
            }
        }
    }

    fn take_over(&self, fresh: Settings) {
        let current = Arc::clone(&self.generations.borrow());
        let (settings, kept) = settings::reload(&current.settings, fresh);
        for setting in kept {
            tracing::warn!(setting, "changed in the configuration; takes effect at the next start only");
        }
        self.generations.send_replace(Arc::new(current.under(settings)));
        tracing::info!("configuration taken over");
    }
}
