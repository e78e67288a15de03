"""Talk to a Sallyport warden. See docs/clients.md of the project.

    async with await sallyport.aio.connect() as client:
        await client.call("test.ping")

    with sallyport.connect() as client:                 # the same, without asyncio
        client.call("test.ping")
"""
from . import aio
from .errors import Error
from .mailbox import Mailbox, MailboxReply
from .paths import control_socket, door
from .sync import Client, Pool, connect
from .wire import Binding

__all__ = ["Binding", "Client", "Error", "Mailbox", "MailboxReply", "Pool", "aio", "connect", "control_socket", "door"]
__version__ = "0.1.0"
