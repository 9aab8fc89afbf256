"""Capture, decode, analyze, replay and conformance-test RDMA traffic: InfiniBand, RoCEv1, RoCEv2 and iWARP.

The package uses the same library as the command ``rdmawire``.
"""

from typing import TYPE_CHECKING

from rdmawire._loading import load_core

load_core()

from rdmawire import conformance, iwarp
from rdmawire._core import *
from rdmawire._core import (
    CaptureError,
    ClosedError,
    DeviceError,
    Error,
    LiveCapture,
    Packet,
    ParseError,
    UsageError,
    WireError,
    __version__,
)
from rdmawire.captures import Capture, CaptureWriter, create_capture, live_devices, open_capture, open_live
from rdmawire.live import LiveAnalysis, follow
from rdmawire.report import CheckReport, Comparison, Report, analyze, check, compare, explain
from rdmawire.progress import progress_bars
from rdmawire.tables import Table
from rdmawire.devices import (
    Completion,
    CompletionQueue,
    Device,
    MemoryRegion,
    MemoryWindow,
    ProtectionDomain,
    QueuePair,
    Stream,
    StreamQueuePair,
    agent,
    lab,
    open_device,
    reference,
)
from rdmawire.differences import Difference, differences
from rdmawire.replaying import (
    PlayedFrame,
    ReactiveReport,
    ReplayReport,
    areplay,
    learn_map,
    replay,
    replay_reactive,
)
from rdmawire.user_headers import HeaderField, define_header, undefine_header
from rdmawire.wires import Wire, WireCapabilities, WireCounters, open_wire, wire_pair

if TYPE_CHECKING:
    from rdmawire import fuzz
else:

    def __getattr__(name: str) -> object:
        # Imported by the first use, since most programs do not need it.
        if name == "fuzz":
            import importlib

            return importlib.import_module("rdmawire.fuzz")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


__all__ = [
    "Capture",
    "CaptureError",
    "CaptureWriter",
    "CheckReport",
    "ClosedError",
    "Comparison",
    "Completion",
    "CompletionQueue",
    "Device",
    "DeviceError",
    "Difference",
    "Error",
    "HeaderField",
    "LiveAnalysis",
    "LiveCapture",
    "MemoryRegion",
    "MemoryWindow",
    "Packet",
    "ParseError",
    "PlayedFrame",
    "ProtectionDomain",
    "QueuePair",
    "ReactiveReport",
    "ReplayReport",
    "Report",
    "Stream",
    "StreamQueuePair",
    "Table",
    "UsageError",
    "Wire",
    "WireCapabilities",
    "WireCounters",
    "WireError",
    "__version__",
    "agent",
    "analyze",
    "areplay",
    "check",
    "compare",
    "conformance",
    "create_capture",
    "define_header",
    "differences",
    "explain",
    "follow",
    "fuzz",
    "iwarp",
    "lab",
    "learn_map",
    "live_devices",
    "open_capture",
    "open_device",
    "open_live",
    "open_wire",
    "progress_bars",
    "reference",
    "replay",
    "replay_reactive",
    "undefine_header",
    "wire_pair",
    # Names of the extension module, written by scripts/python-stubs:
    "Header", "Frame", "parse", "segment", "HEADERS", "ENUMERATIONS", "Ether", "VLAN", "LinuxSLL", "LinuxSLL2",
    "NullLoopback", "ERF", "MacControl", "Pause", "PriorityPause", "IPv4", "IPv4Option", "IPv4OptionByte", "IPv6",
    "IPv6Extension", "IPv6Fragment", "IPv6Authentication", "ARP", "ARPEther", "ARPInfiniband", "ICMP", "ICMPEcho",
    "ICMPv6", "ICMPv6Echo", "RouterSolicitation", "RouterAdvertisement", "NeighborSolicitation",
    "NeighborAdvertisement", "NDRedirect", "NDOption", "NDLinkAddress", "NDIPoIBLinkAddress", "UDP", "TCP",
    "TCPOption", "TCPOptionByte", "TCPMSS", "TCPWindowScale", "TCPTimestamps", "TCPSackBlock", "VXLAN", "GRE",
    "ERSPAN2", "ERSPAN3", "LRH", "GRH", "RWH", "BTH", "RDETH", "DETH", "XRCETH", "RETH", "AtomicETH", "AETH",
    "AtomicAckETH", "ImmDt", "IETH", "FETH", "CNP", "DCETH", "MRCBTH", "METH", "TSETH", "SETH", "CCState", "NETH",
    "PETH", "ERTH", "EETH", "MAD", "RMPP", "VendorMAD", "ClassPortInfo", "SMPLID", "SMPDirected", "SMPPath",
    "SMPData", "NodeDescription", "NodeInfo", "SwitchInfo", "GUIDInfo", "PortInfo", "PKeyTable", "SMInfo", "Notice",
    "SA", "PathRecord", "MCMemberRecord", "NodeRecord", "PortInfoRecord", "ServiceRecord", "InformInfo",
    "InformInfoRecord", "SANotice", "PM", "PortCounters", "PortCountersExtended", "CMReq", "CMMra", "CMRej",
    "CMRep", "CMRtu", "CMDreq", "CMDrep", "CMLap", "CMApr", "CMSidrReq", "CMSidrRep", "RDMACM", "MPAFrame",
    "MPAEnhanced", "FPDU", "Marker", "DDP", "RDMAP", "DDPTagged", "DDPUntagged", "RDMAPReadRequest", "Terminate",
    "DDPSegmentLength", "RDMAPAtomicRequest", "RDMAPAtomicResponse", "RDMAPImmediateData", "IPoIB", "IPoIBCM",
    "NVMeAdmin", "NVMeIO", "NVMeFabrics", "NVMeDwords", "NVMeRange", "NVMeConnect", "NVMeConnectData",
    "NVMePropertySet", "NVMePropertyGet", "NVMeDisconnect", "NVMeAuthentication", "NVMeCQE", "NVMeCMRequest",
    "NVMeCMReply", "NVMeCMReject", "RPCRDMA", "RPCRDMARead", "RPCRDMAChunk", "RPCRDMASegment", "RPCRDMAEnd",
    "RPCRDMAPadding", "RPCRDMAError", "RPCRDMAVersions", "RPCCall", "RPCReply", "RPCRDMAPrivate", "iSER",
    "iSERHello", "iSCSI", "iSERCM", "SRPLoginRequest", "SRPLoginRequestRDMA", "SRPLoginResponse", "SRPLoginReject",
    "SRPShort", "SRPTargetLogout", "SRPTaskManagement", "SRPCommand", "SRPResponse", "SRPCreditRequest",
    "SRPEventRequest", "SMBDirectNegotiateRequest", "SMBDirectNegotiateResponse", "SMBDirectData", "EtherType",
    "ERFRecordType", "MACControlOpcode", "ECN", "IPProtocol", "IPv4OptionCode", "ARPHardwareType", "ARPOperation",
    "ICMPType", "ICMPv6Type", "NeighborDiscoveryOption", "TCPOptionCode", "LRHLNH", "Opcode", "AETHSyndrome",
    "NAKCode", "FLUSHSelectivity", "MRCOpcode", "MRCPathState", "MRCNACKReason", "MRCEndpointOperation",
    "ManagementClass", "MADMethod", "SAStatus", "MADStatusInvalidFields", "SubnetManagementAttribute",
    "SubnetAdministrationAttribute", "PerformanceManagementAttribute", "DeviceManagementAttribute",
    "CommunicationManagementAttribute", "CongestionControlAttribute", "RMPPType", "RMPPStatus", "NodeType",
    "LinkWidth", "PortState", "PortPhysicalState", "LinkDownDefaultState", "LinkSpeedOfALane", "MTUCode",
    "VirtualLanes", "ExtendedLinkSpeedOfALane", "SMState", "NoticeType", "ProducerType", "TrapNumber", "Selector",
    "PathRate", "CMTransportServiceType", "RNRRetryCount", "CMExtendedTransportType", "CMMessageMRAed",
    "CMMessageRejected", "CMREJReason", "CMFailoverAccepted", "CMAPRStatus", "CMSIDRREPStatus", "RDMAPOpcode",
    "DDPQueueNumber", "TerminateLayer", "TerminateRDMAErrorType", "TerminateDDPErrorType", "TerminateLLPErrorType",
    "TerminateRemoteProtectionError", "TerminateRemoteOperationError", "TerminateDDPLocalError",
    "TerminateDDPTaggedBufferError", "TerminateDDPUntaggedBufferError", "TerminateMPAError", "RDMAPAtomicOperation",
    "NVMeAdminOpcode", "NVMeSGLDescriptorType", "NVMeSGLDescriptorSubtype", "NVMeIOOpcode",
    "NVMeFabricsCommandType", "NVMeProperty", "NVMeGenericStatus", "NVMeCommandSpecificStatus",
    "NVMeStatusCodeType", "NVMeRDMARejectStatus", "RPCOverRDMAProcedure", "RPCOverRDMAError", "RPCMessageType",
    "RPCProgram", "RPCReplyStatus", "ISEROpcode", "ISCSIOpcode", "SRPInformationUnitType", "SRPLOGINREJReason",
    "SRPTaskManagementFunction", "Syndrome", "Field", "HeaderTable", "header_table", "OpcodeRow", "opcode_row",
    # End of the names of the extension module.
]
