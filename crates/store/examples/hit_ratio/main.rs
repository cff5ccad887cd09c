#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]
mod chance;
mod mixes;
mod opponents;
mod optimum;
mod tidegate;
use opponents::Cache;
fn run(c: &mut dyn Cache, t: &mixes::Trace, from: usize) -> (f64, f64) {
    let (mut h, mut b, mut tb) = (0u64, 0u64, 0u64);
    for (i, &o) in t.requests.iter().enumerate() {
        let s = t.sizes[o as usize];
        let hit = c.request(o, s);
        if i >= from {
            tb += s as u64;
            if hit {
                h += 1;
                b += s as u64
            }
        }
    }
    (h as f64 * 100. / (t.requests.len() - from) as f64, b as f64 * 100. / tb as f64)
}
fn main() {
    let n: u32 = std::env::var("N").ok().and_then(|x| x.parse().ok()).unwrap_or(100000);
    let quiet = std::env::args().nth(1);
    for m in mixes::MIXES {
        if let Some(q) = &quiet {
            if !m.name.contains(q.as_str()) {
                continue;
            }
        }
        let t = m.trace(n, 7);
        let f = t.footprint();
        let from = t.requests.len() / 4;
        for share in [1u64, 10, 30] {
            let raw = f * share / 100;
            let bytes = tidegate::Tidegate::holds(raw, &t.sizes);
            let mut best = (0f64, 0f64);
            let mut lru = (0., 0.);
            print!("{:22} {:2}% {:5}MB", m.name, share, bytes >> 20);
            print!("({}% of raw)", bytes * 100 / raw);
            for (name, make) in opponents::OPPONENTS {
                let mut c = make(bytes, t.sizes.len());
                let r = run(&mut *c, &t, from);
                best = (best.0.max(r.0), best.1.max(r.1));
                if *name == "LRU" {
                    lru = r;
                }
                print!(" {:.4}:{:.1}/{:.1}", name, r.0, r.1);
            }
            let o = optimum::most(&t, bytes, from);
            print!(" OPT:{:.1}", o.0 as f64 * 100. / (t.requests.len() - from) as f64);
            for (name, adm) in [("all", store::Admission::All), ("freq", store::Admission::Frequency)] {
                let mut c = tidegate::Tidegate::new(raw, adm);
                let t0 = std::time::Instant::now();
                let r = run(&mut c, &t, from);
                let wa = c.written();
                print!(
                    " | {}:{:.1}/{:.1} ({:+.1}/{:+.1}{})wa{:.2} {:.1}s",
                    name,
                    r.0,
                    r.1,
                    r.0 - best.0,
                    r.1 - best.1,
                    if r.0 < lru.0 || r.1 < lru.1 { " <LRU" } else { "" },
                    wa.amplification,
                    t0.elapsed().as_secs_f64()
                );
            }
            println!();
        }
    }
}
