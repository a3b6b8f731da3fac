//! Which Kubernetes cluster a command acts on, and as whom.

use std::{env, fmt, path::PathBuf};

use clap::Args;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};

/// How a cluster is chosen.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ClusterFlags {
    /// Kubeconfig file. Default: the files that KUBECONFIG names, then ~/.kube/config, then the pod's own service account.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Default: its current context.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Why no cluster can be acted on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadCluster {
    #[error("no Kubernetes cluster is named: set KUBECONFIG, give --kubeconfig, or run in a pod")]
    None,
    #[error("the kubeconfig can't be used: {0}: correct KUBECONFIG, --kubeconfig or --context")]
    Kubeconfig(#[from] KubeconfigError),
    #[error("the pod's service account can't be used: {0}: set automountServiceAccountToken, or give --kubeconfig")]
    Pod(#[from] kube::config::InClusterError),
    #[error("the Kubernetes cluster can't be connected to: {0}")]
    Client(#[from] kube::Error),
}

/// A cluster, and how it was found.
#[derive(Debug)]
pub(crate) struct Target {
    pub config: Config,
    pub origin: Origin,
}

/// Where a cluster is named.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In a kubeconfig.
    Kubeconfig { context: String, user: String },
    /// The operator runs in a pod of it.
    Pod,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kubeconfig { context, user } => write!(f, "context {context}, user {user}"),
            Self::Pod => f.write_str("the pod's service account"),
        }
    }
}

impl ClusterFlags {
    /// Finds the cluster. A kubeconfig that is named and can't be used is an error: nothing else is tried in its place.
    pub(crate) async fn find(&self) -> Result<Target, BadCluster> {
        let mut target = match self.kubeconfig()? {
            Some(kubeconfig) => self.of_kubeconfig(kubeconfig).await?,
            None if self.context.is_some() => return Err(BadCluster::None),
            None if env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
                Target { config: Config::incluster()?, origin: Origin::Pod }
            }
            None => return Err(BadCluster::None),
        };
        target.config.apply_debug_overrides();
        Ok(target)
    }

    /// A client of it.
    pub(crate) async fn client(&self) -> Result<Client, BadCluster> {
        Ok(Client::try_from(self.find().await?.config)?)
    }

    fn kubeconfig(&self) -> Result<Option<Kubeconfig>, KubeconfigError> {
        if let Some(file) = &self.kubeconfig {
            return Kubeconfig::read_from(file).map(Some);
        }
        if let Some(kubeconfig) = Kubeconfig::from_env()? {
            return Ok(Some(kubeconfig));
        }
        let usual = env::home_dir().map(|home| home.join(".kube/config"));
        usual.filter(|file| file.exists()).map(Kubeconfig::read_from).transpose()
    }

    async fn of_kubeconfig(&self, kubeconfig: Kubeconfig) -> Result<Target, BadCluster> {
        let context = self.context.clone().or_else(|| kubeconfig.current_context.clone()).unwrap_or_default();
        let named = kubeconfig.contexts.iter().find(|named| named.name == context);
        let user = named.and_then(|named| named.context.as_ref()?.user.clone()).unwrap_or_default();
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Ok(Target { config, origin: Origin::Kubeconfig { context, user } })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, process};

    use super::*;

    fn flags(file: &str, context: Option<&str>) -> ClusterFlags {
        ClusterFlags { kubeconfig: Some(file.into()), context: context.map(ToOwned::to_owned) }
    }

    #[tokio::test]
    async fn the_context_that_is_named_goes_before_the_current_one() {
        let file = env::temp_dir().join(format!("drover-kubeconfig-{}", process::id()));
        let text = "
apiVersion: v1
kind: Config
current-context: lab
clusters:
- {name: lab, cluster: {server: http://127.0.0.1:1}}
- {name: prod, cluster: {server: http://127.0.0.1:2}}
users:
- {name: me, user: {token: x}}
contexts:
- {name: lab, context: {cluster: lab, user: me}}
- {name: prod, context: {cluster: prod, user: me, namespace: ops}}
";
        fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let lab = flags(file, None).find().await.unwrap();
        assert_eq!((lab.config.cluster_url.port_u16(), lab.config.default_namespace.as_str()), (Some(1), "default"));
        let prod = flags(file, Some("prod")).find().await.unwrap();
        assert_eq!((prod.config.cluster_url.port_u16(), prod.config.default_namespace.as_str()), (Some(2), "ops"));
        assert_eq!(prod.origin.to_string(), "context prod, user me");
        let unknown = flags(file, Some("test")).find().await.unwrap_err().to_string();
        assert!(unknown.starts_with("the kubeconfig can't be used: ") && unknown.contains("test"), "{unknown}");
        fs::remove_file(file).unwrap();
        let missing = flags(file, None).find().await.unwrap_err().to_string();
        assert!(missing.starts_with("the kubeconfig can't be used: ") && missing.contains(file), "{missing}");
    }
}
