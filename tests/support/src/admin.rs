//! The admin interface as a test uses it: numbers by name, JSON, purge.

use std::collections::BTreeMap;

/// A scrape of `/metrics`: sample name with its labels, exactly as printed, to value.
#[derive(Debug, Clone)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    pub(crate) fn parse(text: &str) -> Metrics {
        let samples = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Metrics(samples.collect())
    }

    /// The value of one sample, `tidegate_requests_total{result="hit"}`; 0 when it is not there.
    pub fn get(&self, sample: &str) -> f64 {
        self.0.get(sample).copied().unwrap_or(0.0)
    }

    /// The sum over all labels of a metric.
    pub fn sum(&self, metric: &str) -> f64 {
        let of_metric = |name: &str| name.split('{').next() == Some(metric);
        self.0.iter().filter(|(name, _)| of_metric(name)).map(|(_, value)| value).sum()
    }

    /// How many requests ended with this result word.
    pub fn requests(&self, result: &str) -> f64 {
        self.get(&format!("tidegate_requests_total{{result=\"{result}\"}}"))
    }

    /// How many body bytes took this route.
    pub fn route(&self, route: &str) -> f64 {
        self.get(&format!("tidegate_response_body_bytes_total{{route=\"{route}\"}}"))
    }

    /// What was counted between `earlier` and this scrape.
    #[must_use]
    pub fn since(&self, earlier: &Metrics) -> Metrics {
        Metrics(self.0.iter().map(|(name, value)| (name.clone(), value - earlier.get(name))).collect())
    }

    /// The names of all metrics seen, without labels.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().filter_map(|name| name.split('{').next()).collect()
    }
}
