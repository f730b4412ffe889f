/* What the backend and the stand-in take from CUPTI's headers, compared with them: `cargo xtask cuda-gate` compiles this with the
 * headers of CUDA 12 and 13. */

#include <cuda.h>
#include <cupti.h>
#include <stddef.h>

#if CUPTI_API_VERSION >= 130500
typedef CUpti_ActivityKernel13 Kernel;
typedef CUpti_ActivityMemcpy7 Copy;
typedef CUpti_ActivityMemset5 Set;
#elif CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 Kernel;
typedef CUpti_ActivityMemcpy6 Copy;
typedef CUpti_ActivityMemset4 Set;
#else
typedef CUpti_ActivityKernel9 Kernel;
typedef CUpti_ActivityMemcpy6 Copy;
typedef CUpti_ActivityMemset4 Set;
#endif

#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)
#define RECORD(type, call, node)                                                                                       \
    AT(type, kind, 0);                                                                                                 \
    AT(type, start, 16);                                                                                               \
    AT(type, end, 24);                                                                                                 \
    AT(type, correlationId, call);                                                                                     \
    AT(type, graphNodeId, node)

RECORD(Kernel, 92, 144);
RECORD(Copy, 44, 64);
RECORD(Set, 44, 64);
RECORD(CUpti_ActivityMemcpyPtoP4, 60, 72);
AT(CUpti_CallbackData, callbackSite, 0);
AT(CUpti_CallbackData, correlationId, 64);
AT(CUpti_ResourceData, resourceDescriptor, 16);
AT(CUpti_GraphData, node, 16);
AT(CUpti_GraphData, originalNode, 24);
AT(CUpti_GraphData, nodeType, 32);

_Static_assert(CUPTI_ACTIVITY_KIND_MEMCPY == 1 && CUPTI_ACTIVITY_KIND_MEMSET == 2, "kinds");
_Static_assert(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL == 10 && CUPTI_ACTIVITY_KIND_MEMCPY2 == 22, "kinds");
_Static_assert(CUPTI_CB_DOMAIN_DRIVER_API == 1 && CUPTI_CB_DOMAIN_RUNTIME_API == 2, "domains");
_Static_assert(CUPTI_CB_DOMAIN_RESOURCE == 3 && CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED == 13, "callbacks");
_Static_assert(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED == 20 && CUPTI_API_ENTER == 0, "callbacks");
_Static_assert(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED == 39, "errors");
_Static_assert(CUPTI_ERROR_MAX_LIMIT_REACHED == 12 && CUPTI_ERROR_NOT_INITIALIZED == 15, "errors");
