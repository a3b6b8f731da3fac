//! How many may be connected at once. Whoever comes is let in, and if that is one too many, another has to go: so nobody who keeps
//! connections and asks for nothing keeps out those who ask.

use std::{collections::HashMap, net::IpAddr};

use tokio::task::AbortHandle;

/// The connections that there are, from the oldest to the newest.
#[derive(Debug)]
pub(super) struct Places {
    all: usize,
    taken: Vec<(IpAddr, AbortHandle)>,
}

impl Places {
    /// So many.
    pub(super) fn new(all: usize) -> Self {
        Self { all, taken: Vec::new() }
    }

    /// Gives a place to a connection from an address. If there is none left, the oldest goes; but where one address has more than half of
    /// all, the oldest of those. So who is new stays until as many others have come as half of the places, wherever they are from.
    pub(super) fn give(&mut self, address: IpAddr, connection: AbortHandle) {
        self.taken.retain(|(_, connection)| !connection.is_finished());
        // One who comes by IPv4 is the same, whatever kind of socket he comes to.
        self.taken.push((address.to_canonical(), connection));
        if self.taken.len() > self.all {
            let mut counts: HashMap<_, usize> = HashMap::new();
            for (address, _) in &self.taken {
                *counts.entry(*address).or_default() += 1;
            }
            let greedy = counts.into_iter().find(|(_, count)| *count > self.all / 2).map(|(address, _)| address);
            let is_leaving = |(address, _): &(IpAddr, _)| greedy.is_none_or(|greedy| greedy == *address);
            if let Some(leaving) = self.taken.iter().position(is_leaving) {
                self.taken.remove(leaving).1.abort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    /// The numbers of the connections that are still there, of those that came from these addresses one after another.
    async fn stay(places: &mut Places, addresses: &[&str]) -> Vec<usize> {
        let mut all = JoinSet::new();
        let connections: Vec<_> = addresses.iter().map(|_| all.spawn(std::future::pending::<()>())).collect();
        for (address, connection) in addresses.iter().zip(&connections) {
            places.give(address.parse().unwrap(), connection.clone());
        }
        tokio::task::yield_now().await;
        while all.try_join_next().is_some() {}
        let is_there = |number: &usize| !connections[*number].is_finished();
        (0..connections.len()).filter(is_there).collect()
    }

    #[tokio::test]
    async fn the_oldest_goes_and_who_has_more_than_half_loses_his_own() {
        let (a, mapped, b, c) = ("10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2", "::1");
        assert_eq!(stay(&mut Places::new(4), &[b, a, a, mapped, a, a]).await, [0, 3, 4, 5], "b has only one");
        assert_eq!(stay(&mut Places::new(4), &[a, a, a, a, b, c]).await, [2, 3, 4, 5], "who is new is let in");
        assert_eq!(stay(&mut Places::new(4), &[b, a, mapped, a, mapped]).await, [0, 2, 3, 4], "both are one address");
        assert_eq!(stay(&mut Places::new(4), &[a, b, c, a, b]).await, [1, 2, 3, 4], "nobody has more than half");
    }

    #[tokio::test]
    async fn who_has_gone_takes_no_place() {
        let mut places = Places::new(2);
        assert_eq!(stay(&mut places, &["10.0.0.1", "10.0.0.1"]).await, [0, 1]);
        // The first two went with their set.
        tokio::task::yield_now().await;
        assert_eq!(stay(&mut places, &["10.0.0.2", "10.0.0.2"]).await, [0, 1]);
    }
}
