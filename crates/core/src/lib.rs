//! What Drover decides, and nothing that acts.
//!
//! The heart is a pure function, `plan(desired, observed, now) -> actions + status`, with the rules it is made of:
//! rollout, scale-in, naming, budget, backoff, and which fault wants which next step. No tokio, no Kubernetes client, no
//! vSphere client, no clock and no randomness: all of that comes in as arguments, so that thousands of histories can be
//! played through it in a test.
