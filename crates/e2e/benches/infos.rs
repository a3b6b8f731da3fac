//! What it costs to show a hundred hosts and a thousand machines, when nothing happens to them.

use std::time::Duration;

fn main() {
    let (hosts, machines) = (100, 1000);
    drover_e2e::at_rest(hosts, machines, Duration::from_secs(30));
    println!("{hosts} hosts and {machines} machines shown: two calls a minute at most, and no write");
}
