package sparkcohort;

import io.netty.util.internal.PlatformDependent;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.arrow.flatbuf.Buffer;
import org.apache.arrow.flatbuf.FieldNode;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.MessageHeader;
import org.apache.arrow.flatbuf.RecordBatch;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * An Arrow IPC stream of a schema and one record batch, read where it lies.
 *
 * <p>The types are Spark's: agent and query have them from one declaration.  Every place and length is checked against the memory
 * before it is used, for what lies outside of it would end the JVM.
 */
final class ArrowStream {
  private static final int CONTINUATION = -1;
  private static final int PREFIX = 8; // the continuation, and the length of the metadata

  private final long body;
  private final long bodyLength;
  private final RecordBatch record;
  private int node;
  private int buffer;

  private ArrowStream(long body, long bodyLength, RecordBatch record) {
    this.body = body;
    this.bodyLength = bodyLength;
    this.record = record;
  }

  /** The batch in the first {@code used} bytes of direct memory.  Raises MalformedAnswer. */
  static ColumnarBatch batch(ByteBuffer memory, int used, StructType schema) throws Messages.MalformedAnswer {
    if (used < 0 || used > memory.capacity()) {
      throw new Messages.MalformedAnswer(used + " bytes of a buffer of " + memory.capacity());
    }
    ByteBuffer stream = memory.duplicate().order(ByteOrder.LITTLE_ENDIAN).position(0).limit(used);
    try {
      Message schemaMessage = message(stream, 0, MessageHeader.Schema);
      int start = bodyOf(stream, 0) + Math.toIntExact(schemaMessage.bodyLength());
      Message batch = message(stream, start, MessageHeader.RecordBatch);
      RecordBatch record = (RecordBatch) batch.header(new RecordBatch());
      int body = bodyOf(stream, start);
      check(record.compression() == null, "it is compressed");
      check(batch.bodyLength() >= 0 && batch.bodyLength() <= used - body, "a body that ends behind its buffer");
      long address = PlatformDependent.directBufferAddress(memory) + body;
      return new ArrowStream(address, batch.bodyLength(), record).columns(schema);
    } catch (IndexOutOfBoundsException | NegativeArraySizeException | ArithmeticException | IllegalArgumentException e) {
      throw (Messages.MalformedAnswer) new Messages.MalformedAnswer("it is no Arrow stream").initCause(e);
    }
  }

  private ColumnarBatch columns(StructType schema) throws Messages.MalformedAnswer {
    long rows = record.length();
    check(rows >= 0 && rows <= Integer.MAX_VALUE, "its number of rows");
    ColumnVector[] columns = new ColumnVector[schema.length()];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = column(schema.apply(i).dataType(), rows);
    }
    check(node == record.nodesLength() && buffer == record.buffersLength(), "it has other columns");
    return new ColumnarBatch(columns, (int) rows);
  }

  /** The next column, of at least {@code rows} values, with its children (Arrow's order: depth first). */
  private ArrowColumn column(DataType type, long rows) throws Messages.MalformedAnswer {
    FieldNode values = node();
    long length = values.length();
    check(length >= rows && length <= Integer.MAX_VALUE, "a column that is shorter than its batch");
    int nulls = Math.toIntExact(values.nullCount());
    long validity = address(nulls > 0 ? (length + 7) / 8 : 0);
    if (type instanceof StructType struct) {
      ArrowColumn[] children = new ArrowColumn[struct.length()];
      for (int i = 0; i < children.length; i++) {
        children[i] = column(struct.apply(i).dataType(), length);
      }
      return new ArrowColumn(type, nulls, validity, 0, 0, 0, children);
    }
    if (type instanceof ArrayType array) {
      long offsets = address(offsets(length));
      long elements = peek().length();
      return new ArrowColumn(type, nulls, validity, offsets, 0, elements, column(array.elementType(), elements));
    }
    if (type instanceof MapType map) {
      long offsets = address(offsets(length));
      long entries = peek().length();
      ArrowColumn pairs = column(pairs(map), entries); // Arrow: a list of structs
      return new ArrowColumn(type, nulls, validity, offsets, 0, entries, (ArrowColumn) pairs.getChild(0), (ArrowColumn) pairs.getChild(1));
    }
    if (type instanceof StringType || type instanceof BinaryType) {
      long offsets = address(offsets(length));
      long data = address(0);
      return new ArrowColumn(type, nulls, validity, offsets, data, record.buffers(buffer - 1).length());
    }
    return new ArrowColumn(type, nulls, validity, 0, address(type instanceof BooleanType ? (length + 7) / 8 : width(type) * length), 0);
  }

  private FieldNode node() throws Messages.MalformedAnswer {
    FieldNode next = peek();
    node++;
    return next;
  }

  private FieldNode peek() throws Messages.MalformedAnswer {
    check(node < record.nodesLength(), "it has fewer columns");
    return record.nodes(node);
  }

  /** Bytes of the offsets of so many values; of none there may be none (Arrow's Columnar.rst). */
  private static long offsets(long values) {
    return values == 0 ? 0 : Integer.BYTES * (values + 1);
  }

  /** The address of the next buffer, which must lie in the body and have so many bytes. */
  private long address(long least) throws Messages.MalformedAnswer {
    check(buffer < record.buffersLength(), "it has fewer buffers");
    Buffer place = record.buffers(buffer++);
    long offset = place.offset(), length = place.length();
    check(offset >= 0 && length >= least && offset <= bodyLength && length <= bodyLength - offset, "a buffer outside of its body");
    return body + offset;
  }

  private static long width(DataType type) {
    return type instanceof DecimalType ? 16 : type.defaultSize();
  }

  private static StructType pairs(MapType map) {
    return new StructType(
        new StructField[] {
          StructField.apply("key", map.keyType(), false, null), StructField.apply("value", map.valueType(), true, null)
        });
  }

  private static Message message(ByteBuffer stream, int at, byte kind) throws Messages.MalformedAnswer {
    check(stream.getInt(at) == CONTINUATION, "it is no Arrow stream");
    int size = stream.getInt(at + Integer.BYTES);
    Message message = Message.getRootAsMessage(stream.slice(at + PREFIX, size).order(ByteOrder.LITTLE_ENDIAN));
    check(message.headerType() == kind, "another message of Arrow");
    return message;
  }

  private static int bodyOf(ByteBuffer stream, int at) {
    return Math.addExact(at + PREFIX, stream.getInt(at + Integer.BYTES));
  }

  private static void check(boolean fair, String problem) throws Messages.MalformedAnswer {
    if (!fair) {
      throw new Messages.MalformedAnswer(problem);
    }
  }
}
