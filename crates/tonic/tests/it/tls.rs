//! Tests of calls over TLS, with a certificate that the test generates.

use proto_splitter_tonic::send;
use tempfile::tempdir;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity, Server, ServerTlsConfig};

use crate::shelf::shelf_client::ShelfClient;
use crate::shelf::shelf_server::ShelfServer;
use crate::support::{Service, trace};

#[tokio::test]
async fn a_message_goes_over_tls_and_not_to_a_server_that_is_not_trusted() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.pem();
    let identity = Identity::from_pem(&certificate, made.signing_key.serialize_pem());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let folder = tempdir().unwrap();
    let service = Service::new(folder.path());
    let server = Server::builder()
        .tls_config(ServerTlsConfig::new().identity(identity))
        .unwrap()
        .add_service(ShelfServer::new(service.clone()))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(server);

    let connect = |authority: String| async move {
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(authority))
            .domain_name("localhost");
        let channel = Channel::from_shared(format!("https://{address}")).unwrap();
        channel.tls_config(tls).unwrap().connect().await
    };
    let mut client = ShelfClient::new(connect(certificate).await.unwrap());
    let sent = trace(90);
    send(|frames| client.put(frames), &sent).await.unwrap();
    assert!(service.trace(&sent.name).unwrap() == sent);

    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    assert!(connect(other.cert.pem()).await.is_err());
}
