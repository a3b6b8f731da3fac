//! Lines of docs/install.md that more than one test types.

/// Makes an image, and pushes it.
pub(crate) const BUILD: &str = "make docker-build docker-push IMG=registry.example.com/drover:v0.1.0";

/// Gives the operator a vCenter.
pub(crate) const SECRET: &str = "kubectl -n drover-system create secret generic vc-creds --from-literal=VC_HOST=vc.example.com --from-literal=VC_USER=drover@vsphere.local --from-literal=VC_PASS=change-me --from-literal=VC_CA_FILE=/etc/vc-creds/ca.crt --from-file=ca.crt=my-ca.crt";

/// Installs all of it, with kubectl alone.
pub(crate) const APPLY: &str =
    "sed 's|controller:latest|registry.example.com/drover:v0.1.0|' dist/install.yaml | kubectl apply -f -";

/// Installs all of it, with make.
pub(crate) const DEPLOY: &str = "make deploy IMG=registry.example.com/drover:v0.1.0";
