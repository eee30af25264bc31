package sparkcohort;

import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelException;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.epoll.EpollDomainSocketChannel;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.unix.DomainSocketAddress;
import io.netty.channel.unix.DomainSocketReadMode;
import io.netty.channel.unix.FileDescriptor;
import io.netty.util.ReferenceCountUtil;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A task's connection to its agent's abstract socket, for one thread; only what that thread waits for is read.
 *
 * <p>Java's own domain sockets know neither abstract names nor descriptors, so netty's (which Spark brings) has it.  One thread for
 * all connections of this JVM waits in epoll.
 */
final class AgentConnection implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger("sparkcohort.task");
  private static final int LARGEST = 1 << 30;
  private static final int PIECE = 8 << 20;
  private static final EventLoopGroup LOOP =
      new MultiThreadIoEventLoopGroup(1, new DefaultThreadFactory("cohort-agents", true), EpollIoHandler.newFactory());

  private final EpollDomainSocketChannel channel;
  private final Inbox inbox;
  private final long timeoutMs;

  private AgentConnection(EpollDomainSocketChannel channel, Inbox inbox, long timeoutMs) {
    this.channel = channel;
    this.inbox = inbox;
    this.timeoutMs = timeoutMs;
  }

  /** The agent fell silent, is gone, or sent a malformed answer; every step that came whole has been handed out. */
  static class AgentLost extends IOException {
    private static final long serialVersionUID = 1;

    AgentLost(String reason) {
      super("the agent of this executor: " + reason);
    }
  }

  /** No process has the agent's name. */
  static final class NoAgent extends AgentLost {
    private static final long serialVersionUID = 1;

    NoAgent() {
      super("there is none");
    }
  }

  /** A frame: what it is, and its body. */
  record Frame(int kind, byte[] body) {}

  /** Connect to an agent of this user; {@code timeoutMs} bounds each silence.  Raises NoAgent, AgentLost. */
  static AgentConnection open(String address, long timeoutMs) throws IOException {
    Inbox inbox = new Inbox();
    Bootstrap bootstrap =
        new Bootstrap()
            .group(LOOP)
            .channel(EpollDomainSocketChannel.class)
            .option(ChannelOption.AUTO_READ, false)
            .option(ChannelOption.RECVBUF_ALLOCATOR, new ExactSizes(inbox))
            .handler(inbox);
    var connecting = bootstrap.connect(new DomainSocketAddress("\0" + address));
    if (!connecting.awaitUninterruptibly(timeoutMs)) {
      connecting.cancel(true);
      throw new AgentLost("it does not answer");
    }
    if (!connecting.isSuccess()) {
      throw new NoAgent();
    }
    EpollDomainSocketChannel channel = (EpollDomainSocketChannel) connecting.channel();
    AgentConnection connection = new AgentConnection(channel, inbox, timeoutMs);
    try {
      if (channel.peerCredentials().uid() != ownUid()) {
        connection.close();
        throw new AgentLost("its socket belongs to another user");
      }
    } catch (ClosedChannelException | ChannelException e) {
      // The other end has gone, and the loop closes the descriptor while the system is asked: netty says that unchecked.
      throw (AgentLost) new AgentLost("it is gone").initCause(e);
    }
    return connection;
  }

  void send(ByteBuffer request) throws IOException {
    var sent = channel.writeAndFlush(io.netty.buffer.Unpooled.wrappedBuffer(request));
    if (!sent.awaitUninterruptibly(timeoutMs)) {
      throw new AgentLost("it takes no request");
    }
    if (!sent.isSuccess()) {
      throw new AgentLost("it is gone");
    }
  }

  /** The next frame.  Raises AgentLost when it does not come in time, or is too large to be one. */
  Frame receive() throws IOException {
    ByteBuffer head = ByteBuffer.wrap(read(1 + Long.BYTES));
    int kind = head.get();
    long length = head.getLong();
    if (length < 0 || length > LARGEST) {
      throw new Messages.MalformedAnswer("a frame of " + length + " bytes");
    }
    return new Frame(kind, read((int) length));
  }

  /** Map a buffer whose descriptor comes next. */
  MappedByteBuffer map(long size) throws IOException {
    channel.config().setReadMode(DomainSocketReadMode.FILE_DESCRIPTORS);
    FileDescriptor descriptor;
    try {
      if (!(inbox.next(channel, 1, timeoutMs) instanceof FileDescriptor received)) {
        throw new Messages.MalformedAnswer("no descriptor came");
      }
      descriptor = received;
    } finally {
      channel.config().setReadMode(DomainSocketReadMode.BYTES);
    }
    try (RandomAccessFile file = new RandomAccessFile("/proc/self/fd/" + descriptor.intValue(), "r")) {
      if (size <= 0 || size > Math.min(file.length(), Integer.MAX_VALUE)) {
        throw new Messages.MalformedAnswer("a buffer of " + size + " bytes in a file of " + file.length());
      }
      return file.getChannel().map(FileChannel.MapMode.READ_ONLY, 0, size);
    } finally {
      descriptor.close();
    }
  }

  @Override
  public void close() {
    channel.close();
    inbox.drop();
  }

  /** So many bytes; memory is taken as they come, not as they are promised. */
  private byte[] read(int length) throws IOException {
    byte[] bytes = new byte[Math.min(length, PIECE)];
    int count = 0;
    while (count < length) {
      if (count == bytes.length) {
        bytes = java.util.Arrays.copyOf(bytes, (int) Math.min(length, 2L * count));
      }
      Object piece = inbox.next(channel, bytes.length - count, timeoutMs);
      if (!(piece instanceof ByteBuf buffer)) {
        throw new Messages.MalformedAnswer("a descriptor among bytes");
      }
      try {
        int size = buffer.readableBytes();
        if (size > bytes.length - count) {
          throw new AgentLost("it is gone"); // netty reads unasked what is left when the other end closes (epollRdHupReady)
        }
        buffer.readBytes(bytes, count, size);
        count += size;
      } finally {
        buffer.release();
      }
    }
    return bytes;
  }

  private static int ownUid() {
    try {
      return (int) Files.getAttribute(Path.of("/proc/self"), "unix:uid");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Hands what the loop has read to the thread that waits for it: one piece for each call of {@code next}. */
  private static final class Inbox extends ChannelInboundHandlerAdapter {
    private static final Object END = new Object();

    private final LinkedBlockingQueue<Object> pieces = new LinkedBlockingQueue<>();
    private volatile int wanted;
    private volatile Throwable failure;

    /** The next piece, of {@code most} bytes at most. */
    Object next(EpollDomainSocketChannel channel, int most, long timeoutMs) throws IOException {
      wanted = most;
      channel.read();
      try {
        Object piece = pieces.poll(timeoutMs, TimeUnit.MILLISECONDS);
        if (piece == null) {
          throw new AgentLost("no answer for " + timeoutMs + " ms (agent.timeout.ms)");
        }
        if (piece == END) {
          pieces.add(END);
          throw new AgentLost("it is gone" + (failure == null ? "" : " (" + failure.getMessage() + ")"));
        }
        return piece;
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt(); // Spark kills the task
        throw (IOException) new InterruptedIOException("the task is killed").initCause(e);
      }
    }

    void drop() {
      for (Object piece = pieces.poll(); piece != null; piece = pieces.poll()) {
        discard(piece);
      }
      pieces.add(END);
    }

    @Override
    public void channelRead(ChannelHandlerContext context, Object piece) {
      pieces.add(piece);
    }

    @Override
    public void channelInactive(ChannelHandlerContext context) {
      pieces.add(END);
    }

    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
      failure = cause;
      context.close();
    }

    private static void discard(Object piece) {
      if (piece instanceof FileDescriptor descriptor) {
        try {
          descriptor.close();
        } catch (IOException e) {
          LOG.debug("a descriptor that is closed all the same (close(2)): {}", e.getMessage());
        }
      } else {
        ReferenceCountUtil.release(piece);
      }
    }
  }

  /**
   * Reads exactly what is waited for: bytes read beyond a frame would swallow the descriptor that comes with the next byte.
   *
   * <p>unix(7): ancillary data is lost when its bytes are received without room for it.
   */
  @SuppressWarnings("deprecation") // the interface itself names a deprecated one
  private static final class ExactSizes implements io.netty.channel.RecvByteBufAllocator {
    private final Inbox inbox;

    ExactSizes(Inbox inbox) {
      this.inbox = inbox;
    }

    @Override
    public Handle newHandle() {
      return new io.netty.channel.DefaultMaxMessagesRecvByteBufAllocator(1) {
        @Override
        public Handle newHandle() {
          return new MaxMessageHandle() {
            @Override
            public int guess() {
              return inbox.wanted;
            }
          };
        }
      }.newHandle();
    }
  }
}
